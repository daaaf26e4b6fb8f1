// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/step_peaks.h"

#include <gmock/gmock.h>

namespace gpumem {
namespace {

TEST(StepPeaksTest, KeepsEachStepWhileThereAreFew) {
  StepPeaks peaks;
  for (uint64_t step = 1; step <= 100; ++step) peaks.Add({step, step * 10, 0}, true);
  EXPECT_EQ(peaks.width(), 1u);
  EXPECT_EQ(peaks.InWindow(7)->allocated, 70u);
  EXPECT_EQ(peaks.InWindow(101), nullptr);
  EXPECT_EQ(peaks.complete(), 100u);
}

TEST(StepPeaksTest, StaysBoundedAndKeepsTheHighest) {
  StepPeaks peaks;
  for (uint64_t step = 1; step <= 100'000; ++step) peaks.Add({step, step == 77'777 ? 9'000 : step % 7, 0}, true);
  EXPECT_LE(peaks.windows().size(), StepPeaks::kMaxWindows);
  const StepPeak* const found = peaks.InWindow(77'777 / peaks.width());
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(*found, (StepPeak{77'777, 9'000, 0}));
  EXPECT_EQ(peaks.last_ended(), 100'000u);
}

TEST(StepPeaksTest, WindowsOfTwoRanksFitIntoEachOther) {
  StepPeaks few, many;
  for (uint64_t step = 1; step <= 600; ++step) few.Add({step, step, 0}, true);
  for (uint64_t step = 1; step <= 5'000; ++step) many.Add({step, step, 0}, true);
  ASSERT_LT(few.width(), many.width());
  few.CoarsenTo(many.width());
  EXPECT_EQ(few.width(), many.width());
  EXPECT_EQ(*few.InWindow(3), *many.InWindow(3));
}

TEST(StepPeaksTest, AStepThatDidNotEndHasNoPeak) {
  StepPeaks peaks;
  peaks.Add({1, 5, 5}, true);
  peaks.Add({2, 9, 9}, false);
  EXPECT_EQ(peaks.complete(), 1u);
  EXPECT_EQ(peaks.last_ended(), 1u);
  EXPECT_EQ(peaks.last_begun(), 2u);
  EXPECT_EQ(peaks.InWindow(2), nullptr);
}

TEST(StepPeaksTest, OfTotalKeepsTheHighestTotal) {
  StepPeaks peaks(/*of_total=*/true);
  peaks.Add({2, 9, 1}, true);
  peaks.Add({3, 1, 9}, true);
  peaks.CoarsenTo(2);
  EXPECT_EQ(peaks.InWindow(1)->step, 3u);
}

}  // namespace
}  // namespace gpumem
