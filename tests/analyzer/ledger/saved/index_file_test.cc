// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/saved/index_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "testing/index_folder.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

std::string SmallTrace() { return testing::TraceBuilder().CudaAlloc(0x1000, 4096).End().WriteTemporary(); }

void Append(const std::string& path) { std::ofstream(path, std::ios::app) << "x"; }

std::string PathOf(const std::string& trace, const std::string& folder, const std::string& engine = "1") {
  return IndexFileOf(trace, folder, engine)->path;
}

TEST(IndexFileTest, NamesTheStateOfTheTrace) {
  const std::string trace = SmallTrace(), folder = testing::NewFolder();
  const std::string before = PathOf(trace, folder);
  EXPECT_EQ(PathOf(trace, folder), before);
  EXPECT_NE(PathOf(trace, folder, "2"), before);
  Append(trace);
  EXPECT_NE(PathOf(trace, folder), before);
}

TEST(IndexFileTest, APipeIsNotWaitedFor) {
  const std::string pipe = testing::NewFolder() + ".gmtrace";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(IndexFileOf(pipe, "", "1").status().message(),
            pipe + " is not a regular file; name a trace file (*.gmtrace)");
}

TEST(IndexFileTest, OtherBytesOfTheSameSizeAndTimeAreAnotherState) {
  const std::string trace = SmallTrace(), folder = testing::NewFolder();
  const std::string before = PathOf(trace, folder);
  const auto time = std::filesystem::last_write_time(trace);
  std::fstream(trace, std::ios::in | std::ios::out).seekp(20).put('\x55');
  std::filesystem::last_write_time(trace, time);
  EXPECT_NE(PathOf(trace, folder), before);
}

TEST(IndexFileTest, AMissingTraceIsAnError) { EXPECT_FALSE(IndexFileOf("/nowhere/x.gmtrace", "", "1").ok()); }

TEST(IndexFileTest, WhatOthersCanChangeIsNoIndex) {
  const std::string trace = SmallTrace(), folder = testing::NewFolder();
  ASSERT_TRUE(MakeIndexFolder(folder).ok());
  const IndexFile file = *IndexFileOf(trace, folder, "1");
  EXPECT_FALSE(file.exists());
  Append(file.path);
  chmod(file.path.c_str(), 0600);
  EXPECT_TRUE(file.exists());
  chmod(file.path.c_str(), 0666);
  EXPECT_FALSE(file.exists());
  std::filesystem::remove(file.path);
  std::filesystem::create_symlink(trace, file.path);
  EXPECT_FALSE(file.exists());
  chmod(folder.c_str(), 0777);
  EXPECT_TRUE(absl::IsPermissionDenied(MakeIndexFolder(folder)));
}

TEST(IndexFileTest, EarlierStatesAndLeftoversGo) {
  const std::string trace = SmallTrace(), folder = testing::NewFolder();
  ASSERT_TRUE(MakeIndexFolder(folder).ok());
  const IndexFile earlier = *IndexFileOf(trace, folder, "1"), now = *IndexFileOf(trace, folder, "2");
  const std::string of_another = folder + "/other.gmtrace.0123.4567.duckdb";
  const std::string leftover = now.path + ".tmp.999999999", in_work = now.path + ".tmp." + std::to_string(getpid());
  for (const std::string& path : {earlier.path, now.path, of_another, leftover, in_work}) Append(path);
  RemoveStaleIndexes(now);
  EXPECT_FALSE(std::filesystem::exists(earlier.path));
  EXPECT_FALSE(std::filesystem::exists(leftover));
  for (const std::string& path : {now.path, of_another, in_work}) EXPECT_TRUE(std::filesystem::exists(path)) << path;
}

TEST(IndexFileTest, OfMoreThanMayBeKeptTheOldestGo) {
  const testing::IndexFolder folder;
  setenv("GPUMEMSHIM_INDEX_LIMIT", "25", 1);
  const IndexFile now = *IndexFileOf(SmallTrace(), "", "1", "answers");
  ASSERT_TRUE(MakeIndexFolder(now.folder).ok());
  const auto other = [&](const std::string& name, int age) {
    const std::string path = now.folder + "/" + name;
    std::ofstream(path) << "ten bytes.";
    const timespec times[2] = {{time(nullptr) - age, 0}, {time(nullptr) - age, 0}};
    EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    return path;
  };
  const std::string hashes = ".1f2e3d4c5b6a7988.0123456789abcdef.";
  const std::string oldest = other("a" + hashes + "answers", 3000), old = other("b" + hashes + "duckdb", 2000),
                    young = other("c" + hashes + "analysis", 1000), not_ours = other("notes.answers", 9000);
  other(now.path.substr(now.folder.size() + 1), 8000);
  RemoveStaleIndexes(now);
  EXPECT_FALSE(std::filesystem::exists(oldest));
  for (const std::string& path : {old, young, not_ours, now.path}) EXPECT_TRUE(std::filesystem::exists(path)) << path;
  unsetenv("GPUMEMSHIM_INDEX_LIMIT");
}

}  // namespace
}  // namespace gpumem
