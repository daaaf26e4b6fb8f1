// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/open_ranges.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gpumemshim::control {
namespace {

std::vector<std::string> g_reported;

void Tell(const Mark& mark) {
  g_reported.push_back(std::to_string(mark.tid) + ":" + std::to_string(static_cast<int>(mark.kind)) + ":" +
                       (mark.text == nullptr ? "" : std::string(mark.text, mark.size)) + ":" +
                       std::to_string(mark.number));
}

std::vector<std::string> Reported() {
  g_reported.clear();
  TakeNotes(&Tell);
  return g_reported;
}

void Push(const std::string& name, uint32_t tid) {
  NoteMark({.kind = EventKind::kRangePush, .text = name.data(), .size = name.size()}, tid);
}

class OpenRanges : public ::testing::Test {
 protected:
  void SetUp() override { ForgetNotes(); }
};

TEST_F(OpenRanges, APopTakesBackAPushOfItsThread) {
  Push("a", 1);
  Push("b", 1);
  Push("c", 2);
  NoteMark({.kind = EventKind::kRangePop}, 1);
  EXPECT_EQ(Reported(), (std::vector<std::string>{"1:31:a:0", "2:31:c:0"}));
  EXPECT_TRUE(Reported().empty());
}

TEST_F(OpenRanges, APopOfWhatWasOpenBeforeIsKept) {
  NoteMark({.kind = EventKind::kRangePop}, 1);
  Push("next", 1);
  EXPECT_EQ(Reported(), (std::vector<std::string>{"1:32::0", "1:31:next:0"}));
}

TEST_F(OpenRanges, TheLastStepAndTagCount) {
  NoteMark({.kind = EventKind::kStep, .number = 1}, 1);
  NoteMark({.kind = EventKind::kStep, .number = 2}, 2);
  NoteMark({.kind = EventKind::kTag, .text = "x", .size = 1}, 1);
  NoteMark({.kind = EventKind::kTag}, 1);
  NoteMark({.kind = EventKind::kMark, .text = "gone", .size = 4}, 1);
  EXPECT_EQ(Reported(), (std::vector<std::string>{"2:33::2", "1:34::0"}));
}

TEST_F(OpenRanges, ARangeOfTheProcessIsEndedByAnyThread) {
  NoteMark({.kind = EventKind::kRangeStart, .text = "r", .size = 1, .number = 7}, 1);
  NoteMark({.kind = EventKind::kRangeStart, .text = "s", .size = 1, .number = 8}, 1);
  NoteMark({.kind = EventKind::kRangeEnd, .number = 7}, 2);
  EXPECT_EQ(Reported(), (std::vector<std::string>{"1:35:s:8"}));
}

TEST_F(OpenRanges, FullAndTooLong) {
  Push(std::string(500, 'x'), 1);
  for (uint32_t i = 0; i < 2 * kMaxNotes; ++i) Push("y", 1);
  const std::vector<std::string> reported = Reported();
  EXPECT_EQ(reported.size(), kMaxNotes);
  EXPECT_EQ(reported[0], "1:31:" + std::string(kMaxNoteBytes, 'x') + ":0");
}

}  // namespace
}  // namespace gpumemshim::control
