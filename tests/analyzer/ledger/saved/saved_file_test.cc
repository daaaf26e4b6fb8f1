// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/saved/saved_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "testing/index_folder.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

class SavedFileTest : public ::testing::Test {
 protected:
  SavedFileTest() {
    auto writer = SavedFileWriter::Create(file_);
    block_ = (*writer)->Append(std::string(100'000, 'a'));
    EXPECT_TRUE((*writer)->Finish("all the rest").ok());
  }
  void Change(uint64_t offset) const {
    std::fstream stream(file_.path, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(offset));
    const int before = stream.get();
    stream.seekp(static_cast<std::streamoff>(offset)).put(static_cast<char>(before ^ 1));
  }

  const std::string trace_ = testing::TraceBuilder().CudaAlloc(0x1000, 4096).End().WriteTemporary();
  const testing::IndexFolder folder_;
  const IndexFile file_ = *SavedFileOf(trace_, "answers");
  SavedBlock block_;
};

TEST_F(SavedFileTest, WhatGoesInComesOut) {
  const auto saved = SavedFile::Open(file_);
  ASSERT_NE(saved, nullptr);
  EXPECT_EQ(saved->main(), "all the rest");
  EXPECT_EQ(saved->Block(block_), std::string(100'000, 'a'));
}

TEST_F(SavedFileTest, AnyChangedByteIsSeen) {
  const uint64_t size = std::filesystem::file_size(file_.path);
  for (uint64_t offset = 0; offset < size; ++offset) {
    Change(offset);
    const auto saved = SavedFile::Open(file_);
    EXPECT_TRUE(saved == nullptr || !saved->Block(block_)) << offset;
    Change(offset);
  }
  EXPECT_NE(SavedFile::Open(file_), nullptr);
}

TEST_F(SavedFileTest, AnyShorterFileIsNone) {
  for (uint64_t size = std::filesystem::file_size(file_.path); size-- > 0;) {
    std::filesystem::resize_file(file_.path, size);
    EXPECT_EQ(SavedFile::Open(file_), nullptr) << size;
  }
}

TEST_F(SavedFileTest, WithoutFinishNothingIsLeft) {
  std::filesystem::remove(file_.path);
  (*SavedFileWriter::Create(file_))->Append("half");
  EXPECT_TRUE(std::filesystem::is_empty(file_.folder));
}

TEST_F(SavedFileTest, IsOfOneStateOfTheTrace) {
  std::ofstream(trace_, std::ios::app) << "x";
  EXPECT_NE(SavedFileOf(trace_, "answers")->path, file_.path);
  EXPECT_NE(SavedFileOf(trace_, "analysis")->path, file_.path);
}

}  // namespace
}  // namespace gpumem
