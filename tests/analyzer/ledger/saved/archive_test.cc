// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/saved/archive.h"

#include <gtest/gtest.h>

#include <utility>

#include "ledger/saved/fields.h"

namespace gpumem {
namespace {

TEST(ArchiveTest, WhatGoesInComesOut) {
  MarkEntry mark{5, 2, 7, 9, "epoch"};
  const std::map<std::string, std::vector<uint64_t>> lists{{"a", {1, 2}}, {"b", {}}};
  const std::optional<std::string> text("x"), none;
  const std::pair<int, double> pair{-3, 0.5};
  ArchiveWriter writer;
  writer(mark, lists, text, none, pair);

  MarkEntry mark_back;
  std::map<std::string, std::vector<uint64_t>> lists_back;
  std::optional<std::string> text_back, none_back("y");
  std::pair<int, double> pair_back;
  ArchiveReader reader(writer.bytes());
  reader(mark_back, lists_back, text_back, none_back, pair_back);
  EXPECT_TRUE(reader.IsDone());
  EXPECT_EQ(mark_back.text, "epoch");
  EXPECT_EQ(mark_back.number, 9u);
  EXPECT_EQ(lists_back, lists);
  EXPECT_EQ(text_back, text);
  EXPECT_EQ(none_back, none);
  EXPECT_EQ(pair_back, pair);
}

TEST(ArchiveTest, EveryShorterPieceIsNoneOfIt) {
  Analysis analysis;
  analysis.devices.resize(2);
  analysis.devices[1].name = "GPU";
  analysis.losses.unseen.push_back({UnseenCalls::Cause::kBoundPast, "libx.so", 1, {"cudaMalloc"}});
  ArchiveWriter writer;
  writer(analysis);
  for (size_t size = 0; size < writer.bytes().size(); ++size) {
    Analysis back;
    ArchiveReader reader(absl::string_view(writer.bytes()).substr(0, size));
    reader(back);
    ASSERT_FALSE(reader.IsDone()) << size;
  }
}

TEST(ArchiveTest, ATruthValueIsOneOfTwo) {
  const std::optional<uint8_t> text(uint8_t{7});
  ArchiveWriter writer;
  writer(true, false, text);
  std::string bytes = writer.bytes();
  for (const size_t at : {0, 1, 2}) {
    const char before = std::exchange(bytes[at], '\x02');
    bool first = true, second = true;
    std::optional<uint8_t> third;
    ArchiveReader reader(bytes);
    reader(first, second, third);
    EXPECT_FALSE(reader.ok()) << at;
    bytes[at] = before;
  }
}

TEST(ArchiveTest, ACountBeyondTheBytesTakesNoMemory) {
  ArchiveWriter writer;
  writer(uint64_t{1} << 60);
  std::vector<std::string> texts;
  std::vector<uint64_t> numbers;
  ArchiveReader first(writer.bytes()), second(writer.bytes());
  first(texts);
  second(numbers);
  EXPECT_FALSE(first.ok());
  EXPECT_FALSE(second.ok());
  EXPECT_TRUE(texts.empty());
  EXPECT_TRUE(numbers.empty());
}

}  // namespace
}  // namespace gpumem
