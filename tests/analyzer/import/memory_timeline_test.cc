// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// torch.profiler's memory timelines, both forms, from a file to the answer.

#include "import/memory_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "imported.h"

namespace gpumem {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// Columns: 0, parameter, optimizer state, input, temporary, activation, gradient, autograd detail, unknown.
constexpr char kTotals[] =
    "[[1700000000000000, 1700000000000010, 1700000000000020, 1700000000000030],"
    " [[0,100,0,0,0,0,0,0,0], [0,100,0,0,0,70,0,0,0], [0,100,0,0,0,50,30,0,0], [0,100,0,0,0,0,30,0,0]]]";

TEST(MemoryTimelineTest, TotalsAreExact) {
  ImportResult result;
  const auto analysis = Import(kTotals, &result);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  ASSERT_EQ(analysis->devices.size(), 1u);
  EXPECT_EQ(analysis->devices[0].peak_allocated.bytes, 180u);
  EXPECT_EQ(analysis->devices[0].peak_allocated.time_ns, 1700000000000020000u);
  EXPECT_EQ(analysis->devices[0].end.allocated, 130u);
  EXPECT_EQ(result.covers, "window");
  EXPECT_TRUE(result.has_categories);
  EXPECT_FALSE(result.has_lives);
  EXPECT_FALSE(result.has_stacks);
}

TEST(MemoryTimelineTest, OtherColumnsHaveNoCategories) {
  ImportResult result;
  const auto analysis = Import("[[1,2],[[5,0],[5,9]]]", &result);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  EXPECT_EQ(analysis->devices[0].peak_allocated.bytes, 14u);
  EXPECT_FALSE(result.has_categories);
  EXPECT_THAT(result.notes, Contains(HasSubstr("Its rows have 2 columns, not 9")));
}

// From before: 64 of a parameter. A new version moves 32 bytes from unknown to gradient, which is no more memory.
constexpr char kRaw[] =
    "[[-1, 1, 64, 0], [1700000000000000000, 2, 32, 7], [1700000000000000100, 3, -32, 7],"
    " [1700000000000000100, 3, 32, 5], [1700000000000000200, 2, 8, 3], [1700000000000000300, 4, -8, 3],"
    " [1700000000000000400, 4, -32, 5], [1700000000000000500, 4, -16, 4]]";

TEST(MemoryTimelineTest, RawEventsAreBlocks) {
  for (const std::string& bytes : {std::string(kRaw), Gzip(kRaw)}) {
    ImportResult result;
    const auto analysis = Import(bytes, &result);
    ASSERT_TRUE(analysis.ok()) << analysis.status();
    EXPECT_EQ(analysis->devices[0].peak_allocated.bytes, 104u);
    EXPECT_EQ(analysis->devices[0].end.allocated, 64u);  // what is freed without having been there changes nothing
    EXPECT_EQ(analysis->process.anchor_realtime_ns, 1700000000000000000u);
  }
}

TEST(MemoryTimelineTest, ANewVersionAloneIsNoMoreMemory) {
  const auto analysis = Import("[[10,1,8,1],[20,1,4,4],[30,3,4,4]]");
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  EXPECT_EQ(analysis->devices[0].peak_allocated.bytes, 12u);
  EXPECT_EQ(analysis->devices[0].end.allocated, 12u);
}

TEST(MemoryTimelineTest, RefusesWhatIsNone) {
  for (const char* text : {"[[1,2],[3]]", "[[1,2,3,4],[[1]]]", "[[1],[[[2]]]]", "[[1,[2]]]", "[[1],{}]", "[[\"a\"]]",
                           "[[1,9,8,1]]", "[[1,2,8,70]]", "[[1,2,99999999999999999,1]]", "[[1,2,3"}) {
    const auto analysis = Import(text);
    ASSERT_FALSE(analysis.ok()) << text;
    EXPECT_TRUE(absl::IsDataLoss(analysis.status())) << text;
    EXPECT_THAT(std::string(analysis.status().message()), HasSubstr("imeline")) << text;
  }
  EXPECT_THAT(std::string(Import(std::string(kTotals).substr(0, 100)).status().message()), HasSubstr("at byte"));
  EXPECT_TRUE(Import("[[],[]]").ok());
}

}  // namespace
}  // namespace gpumem
