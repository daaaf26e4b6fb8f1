// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Logs of RMM and CuPy, from a file to the answer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "imported.h"

namespace gpumem {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr char kRmm[] =
    "Thread,Time,Action,Pointer,Size,Stream\n"
    "12,23:59:59.999999,allocate,0x7f0000000000,1024,0x0\n"
    "12,00:00:00:000001,allocate,0x7f0000100000,4096,0x0\n"
    "13,00:00:00:000002,free,0x7f0000000000,1024,0x0\n"
    "13,00:00:00:000003,allocate failure,(nil),99999999999,0x1\n";

TEST(RmmLogTest, BecomesCudaMemory) {
  const auto analysis = Import(kRmm);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  ASSERT_EQ(analysis->devices.size(), 1u);
  EXPECT_EQ(analysis->devices[0].peak_total.bytes, 5120u);
  EXPECT_EQ(analysis->devices[0].end.total, 4096u);
  EXPECT_EQ(analysis->end_ns - analysis->origin_ns, 4000u);  // over midnight
  ASSERT_EQ(analysis->ooms.size(), 1u);
  EXPECT_EQ(analysis->ooms[0].requested, 99999999999u);
}

TEST(RmmLogTest, CountsLinesThatAreNone) {
  ImportResult result;
  ASSERT_TRUE(Import(absl::StrCat(kRmm, "12,nonsense\n12,0:0:0.0,fly,0x1,1,0x0\n"), &result).ok());
  EXPECT_THAT(result.notes, Contains(HasSubstr("2 lines that could not be read")));
  EXPECT_TRUE(absl::IsDataLoss(Import("Thread,Time,Action,Pointer,Size,Stream\nx\n").status()));
  EXPECT_TRUE(absl::IsDataLoss(Import("Thread,Time,Action,Pointer,Size,Stream\n" + std::string(9000, 'x')).status()));
}

TEST(GzipTest, DamageIsSaid) {
  std::string packed = Gzip(kRmm);
  EXPECT_THAT(std::string(Import(packed.substr(0, packed.size() / 2)).status().message()), HasSubstr("gzip"));
  packed[packed.size() / 2] ^= 0x55;
  EXPECT_FALSE(Import(packed).ok());
}

TEST(GzipTest, BombsAreRefused) {
  const std::string head = "Thread,Time,Action,Pointer,Size,Stream\n";
  EXPECT_THAT(std::string(Import(Gzip(head + std::string(200 << 20, '\n'))).status().message()),
              HasSubstr("times as long"));
}

TEST(RmmLogTest, FileNameTellsTheDevice) {
  const NamedFile file("rmm_log.dev3.csv", kRmm);
  const auto analysis = ImportPath(file.path());
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  ASSERT_EQ(analysis->devices.size(), 1u);
  EXPECT_EQ(analysis->devices[0].device, 3);
}

TEST(RmmDebugLogTest, MatchesFreesBySize) {
  ImportResult result;
  const auto analysis = Import(
      "[10][08:24:53:000001][info  ] ----- RMM LOG BEGIN [PTDS DISABLED] -----\n"
      "[10][08:24:53:000002][trace ] [A][stream 0x0][1048576B]\n"
      "[10][08:24:53:000003][trace ] [A][stream 0x0][4096B]\n"
      "[11][08:24:53:000004][trace ] [D][stream 0x0][1048576B][0x7f0000000000]\n"
      "[11][08:24:53:000005][error ] [A][Stream 0x0][Upstream 800000000B][FAILURE maximum pool size exceeded]\n",
      &result);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  ASSERT_EQ(analysis->devices.size(), 1u);
  EXPECT_EQ(analysis->devices[0].peak_total.bytes, 1048576u + 4096u);
  EXPECT_EQ(analysis->devices[0].end.total, 4096u);
  ASSERT_EQ(analysis->ooms.size(), 1u);
  EXPECT_EQ(analysis->ooms[0].requested, 800000000u);
  EXPECT_FALSE(result.has_lives);
  EXPECT_TRUE(result.has_times);
}

TEST(RmmDebugLogTest, TakesWhatRequestsGot) {
  ImportResult result;
  const auto analysis = Import(
      "[10][08:24:53:000002][trace ] [A][stream 0x0][1000B]\n"
      "[10][08:24:53:000002][debug ] [A][Stream 0x0][Upstream 2097152B]\n"
      "[10][08:24:53:000003][trace ] [A][stream 0x0][1024B][0x7f0000000000]\n"
      "[10][08:24:53:000003][trace ] [Summary][Free lists: 1][Blocks: 1][Max Block: 2096128][Total Free: 2096128]\n"
      "[10][08:24:53:000004][trace ] [D][stream 0x0][1000B][0x7f0000000000]\n",
      &result);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  EXPECT_EQ(analysis->devices[0].peak_total.bytes, 1024u);
  EXPECT_EQ(analysis->devices[0].end.total, 0u);
  EXPECT_TRUE(result.has_lives);
}

TEST(RmmDebugLogTest, LinesOfTheConsoleHaveNoTimes) {
  ImportResult result;
  const auto analysis =
      Import("[RMM] [error] [A][Stream 0x1][Upstream 800000000B][FAILURE maximum pool size exceeded]\n", &result);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  EXPECT_EQ(analysis->ooms.size(), 1u);
  EXPECT_FALSE(result.has_times);
}

TEST(CupyLogTest, CountsWhatArraysGot) {
  ImportResult result;
  const auto analysis = Import(
      "epoch 1\n"
      R"({"hook":"alloc","device_id":1,"mem_size":2097152,"mem_ptr":150496608256})"
      "\n"
      R"({"hook":"malloc","device_id":1,"size":24,"mem_size":512,"mem_ptr":150496608256,"pmem_id":"0x7f39200c5278"})"
      "\n"
      R"({"hook":"malloc","device_id":1,"size":1000,"mem_size":1024,"mem_ptr":150496608768,"pmem_id":"0x7f39200c5288"})"
      "\n"
      R"({"hook":"free","device_id":1,"mem_size":512,"mem_ptr":150496608256,"pmem_id":"0x7f39200c5278"})"
      "\n"
      R"({"hook":"malloc","device_id":1,"size":99999999,"mem_size":99999999,"mem_ptr":0,"pmem_id":"0x0"})"
      "\n",
      &result);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  ASSERT_EQ(analysis->devices.size(), 1u);
  EXPECT_EQ(analysis->devices[0].device, 1);
  EXPECT_EQ(analysis->devices[0].peak_total.bytes, 1536u);
  EXPECT_EQ(analysis->devices[0].end.total, 1024u);
  EXPECT_EQ(analysis->ooms.size(), 1u);
  EXPECT_EQ(result.format, "CuPy log");
}

}  // namespace
}  // namespace gpumem
