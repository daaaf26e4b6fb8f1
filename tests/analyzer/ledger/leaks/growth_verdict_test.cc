// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/leaks/growth_verdict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

namespace gpumem {
namespace {

std::vector<int64_t> SeriesOf(size_t count, const std::function<int64_t(int64_t)>& value) {
  std::vector<int64_t> values;
  for (size_t i = 0; i < count; ++i) values.push_back(value(static_cast<int64_t>(i)));
  return values;
}

TEST(JudgeGrowth, ASteadyLeakHasItsRate) {
  const GrowthVerdict verdict = JudgeGrowth(SeriesOf(50, [](int64_t i) { return 1000 + 512 * i; }));
  EXPECT_EQ(verdict.status, LeakStatus::kGrowing);
  EXPECT_EQ(verdict.grown, 49 * 512);
  EXPECT_DOUBLE_EQ(verdict.bytes_per_iteration, 512);
  EXPECT_EQ(verdict.first_rise, 1u);
  EXPECT_EQ(verdict.rises, 49u);
  EXPECT_GT(verdict.confidence, 0.999);
}

TEST(JudgeGrowth, FiveIterationsAreEnoughAndFourAreNot) {
  EXPECT_EQ(JudgeGrowth({1, 2, 3, 4, 5}).status, LeakStatus::kGrowing);
  EXPECT_EQ(JudgeGrowth({1, 2, 3, 4}).status, LeakStatus::kFlat);
}

TEST(JudgeGrowth, EachTenthIterationIsEnough) {
  const GrowthVerdict verdict = JudgeGrowth(SeriesOf(60, [](int64_t i) { return (i / 10) * 4096; }));
  EXPECT_EQ(verdict.status, LeakStatus::kGrowing);
  EXPECT_EQ(verdict.rises, 5u);
}

TEST(JudgeGrowth, ASmallLeakBelowLargeNoiseIsFoundByItsLows) {
  std::mt19937 random(1);
  const GrowthVerdict verdict =
      JudgeGrowth(SeriesOf(160, [&](int64_t i) { return 512 * i + (random() % 3 == 0 ? 0 : int64_t{1} << 20); }));
  EXPECT_EQ(verdict.status, LeakStatus::kGrowing);
}

TEST(JudgeGrowth, WhatComesAndGoesIsFlat) {
  EXPECT_EQ(JudgeGrowth(SeriesOf(60, [](int64_t i) { return (i % 12) * 4096; })).status, LeakStatus::kFlat);
  EXPECT_EQ(JudgeGrowth(SeriesOf(60, [](int64_t i) { return (i % 15) * 4096 + i / 30; })).status, LeakStatus::kFlat)
      << "a sawtooth that ends a little higher";
  EXPECT_EQ(JudgeGrowth(SeriesOf(60, [](int64_t i) { return 60 - i; })).status, LeakStatus::kFlat);
  std::mt19937 random(2);
  for (int run = 0; run < 50; ++run) {
    EXPECT_NE(JudgeGrowth(SeriesOf(100, [&](int64_t) { return static_cast<int64_t>(random() % 1000); })).status,
              LeakStatus::kGrowing);
  }
}

TEST(JudgeGrowth, OneOrTwoRisesHappenedOnce) {
  EXPECT_EQ(JudgeGrowth(SeriesOf(60, [](int64_t i) { return i < 20 ? 0 : 4096; })).status, LeakStatus::kOnce);
  EXPECT_EQ(JudgeGrowth(SeriesOf(60, [](int64_t i) { return i < 20 ? 0 : i < 40 ? 1 : 2; })).status, LeakStatus::kOnce);
}

TEST(JudgeGrowth, ACacheThatFillsStops) {
  EXPECT_EQ(JudgeGrowth(SeriesOf(90, [](int64_t i) { return std::min<int64_t>(i, 40) * 4096; })).status,
            LeakStatus::kStopped);
  // One entry a sequence length, of 20 lengths that come at random.
  std::mt19937 random(3);
  std::vector<bool> seen(20);
  int64_t bytes = 0;
  const auto cache = SeriesOf(120, [&](int64_t) {
    const size_t length = random() % seen.size();
    if (!seen[length]) bytes += 4096;
    seen[length] = true;
    return bytes;
  });
  EXPECT_EQ(JudgeGrowth(cache).status, LeakStatus::kStopped);
}

TEST(JudgeGrowth, ALeakThatBeginsLateGrows) {
  const GrowthVerdict verdict = JudgeGrowth(SeriesOf(80, [](int64_t i) { return std::max<int64_t>(i - 40, 0) * 100; }));
  EXPECT_EQ(verdict.status, LeakStatus::kGrowing);
  EXPECT_EQ(verdict.first_rise, 41u);
  EXPECT_DOUBLE_EQ(verdict.bytes_per_iteration, 100);
}

}  // namespace
}  // namespace gpumem
