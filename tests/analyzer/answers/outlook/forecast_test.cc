// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/outlook/forecast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace gpumem {
namespace {

constexpr double kGiB = 1 << 30;
constexpr ForecastLimit kLimit{80 * kGiB, 80 * kGiB};

std::vector<double> Levels(size_t count, const std::function<double(double)>& at) {
  std::vector<double> levels;
  for (size_t t = 0; t < count; ++t) levels.push_back(at(static_cast<double>(t)));
  return levels;
}

TEST(Forecast, NothingOfTooFewSteps) {
  EXPECT_EQ(ForecastOf({}, kLimit).kind, ForecastKind::kTooShort);
  EXPECT_EQ(ForecastOf(Levels(kLeastSteps - 1, [](double t) { return t * kGiB; }), kLimit).kind,
            ForecastKind::kTooShort);
}

TEST(Forecast, AnEvenLeakRunsOutWhereTheLineMeetsTheLimit) {
  // 20 GiB and 0.1 GiB a step: 80 GiB at step 600.
  const Forecast forecast = ForecastOf(Levels(500, [](double t) { return 20 * kGiB + 0.1 * kGiB * t; }), kLimit);
  EXPECT_EQ(forecast.kind, ForecastKind::kReaches);
  EXPECT_NEAR(forecast.likely, 101, 1.5);
  EXPECT_LE(forecast.earliest, 101);
  EXPECT_GE(forecast.latest, 101);
  EXPECT_LT(forecast.latest, 110);
  EXPECT_EQ(forecast.grows_since, 0u);
  EXPECT_NEAR(forecast.per_step, 0.1 * kGiB, 1);
}

TEST(Forecast, IsSilentWhileItHasLongerToGoThanItHasGrown) {
  EXPECT_EQ(ForecastOf(Levels(100, [](double t) { return 20 * kGiB + 0.1 * kGiB * t; }), kLimit).kind,
            ForecastKind::kFar);
}

TEST(Forecast, ALevelThatNothingChangesIsSteady) {
  EXPECT_EQ(ForecastOf(Levels(500, [](double) { return 79 * kGiB; }), kLimit).kind, ForecastKind::kSteady);
  EXPECT_EQ(ForecastOf(Levels(500, [](double) { return 0; }), kLimit).kind, ForecastKind::kSteady);
}

TEST(Forecast, WhatFallsRunsIntoNothing) {
  EXPECT_EQ(ForecastOf(Levels(500, [](double t) { return 79 * kGiB - t * 1e7; }), kLimit).kind, ForecastKind::kSteady);
}

TEST(Forecast, ASawThatWasAsHighBeforeIsSteady) {
  const auto saw = [](double t) { return 20 * kGiB + 50 * kGiB * std::fmod(t, 150) / 150; };
  EXPECT_NE(ForecastOf(Levels(430, saw), kLimit).kind, ForecastKind::kReaches);
}

// One and a half of its periods look like growth to a line.
TEST(Forecast, ASawThatFellBackIsNoGrowth) {
  for (int steps = 150; steps < 400; steps += 10) {
    const auto saw = [](double t) { return 20 * kGiB + 28 * kGiB * std::fmod(t, 100) / 100; };
    EXPECT_NE(ForecastOf(Levels(steps, saw), kLimit).kind, ForecastKind::kReaches) << steps;
  }
}

TEST(Forecast, ALeakUnderASawIsGrowth) {
  const auto leak = [](double t) { return 20 * kGiB + 0.1 * kGiB * t + 10 * kGiB * std::fmod(t, 40) / 40; };
  const Forecast forecast = ForecastOf(Levels(400, leak), kLimit);
  EXPECT_EQ(forecast.kind, ForecastKind::kReaches);
  EXPECT_NEAR(forecast.per_step / kGiB, 0.1, 0.01);
}

// 20 + 60 (t / 600)^1.6 reaches 80 at 600; the pace of the whole stretch would say later.
TEST(Forecast, GrowthThatSpeedsUpIsSeenToDoSo) {
  const auto faster = [](double t) { return 20 * kGiB + 60 * kGiB * std::pow(t / 600, 1.6); };
  for (const int seen : {450, 500, 550}) {
    const Forecast forecast = ForecastOf(Levels(seen, faster), {80 * kGiB, 80 * kGiB});
    ASSERT_EQ(forecast.kind, ForecastKind::kReaches) << seen;
    EXPECT_LE(forecast.earliest, 600 - seen) << seen;
    EXPECT_GE(forecast.latest, 600 - seen) << seen;
  }
}

TEST(Forecast, ACacheThatFillsEverMoreSlowlySettles) {
  const Forecast forecast =
      ForecastOf(Levels(300, [](double t) { return 20 * kGiB + 40 * kGiB * (1 - std::exp(-t / 120)); }), kLimit);
  EXPECT_EQ(forecast.kind, ForecastKind::kSlowing);
  EXPECT_NEAR(forecast.settles_at, 60 * kGiB, 4 * kGiB);
}

TEST(Forecast, GrowthThatBeganLateIsDatedFromThere) {
  const Forecast forecast =
      ForecastOf(Levels(800, [](double t) { return 20 * kGiB + 0.15 * kGiB * std::fmax(0, t - 450); }), kLimit);
  EXPECT_EQ(forecast.kind, ForecastKind::kReaches);
  EXPECT_GE(forecast.grows_since, 400u);
  EXPECT_NEAR(forecast.likely, 51, 6);  // 450 + 400 - 799
}

TEST(Forecast, AtTheLimitNothingIsLeft) {
  const Forecast forecast = ForecastOf(Levels(700, [](double t) { return 20 * kGiB + 0.1 * kGiB * t; }), kLimit);
  EXPECT_EQ(forecast.kind, ForecastKind::kReaches);
  EXPECT_EQ(forecast.earliest, 0);
}

TEST(Forecast, OddValuesAreAnswered) {
  for (const double odd : {std::numeric_limits<double>::max(), 1e-300, -1.0}) {
    std::vector<double> levels(50, odd);
    levels[25] = 0;
    ForecastOf(levels, kLimit);
    ForecastOf(levels, {0, 0});
  }
}

// The page has the whole set; here a tenth of it stays honest.
TEST(Forecast, RangesOfNoisyLeaksHoldMostly) {
  int held = 0;
  constexpr int kRuns = 60;
  for (int seed = 0; seed < kRuns; ++seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    std::exponential_distribution<double> amount(1 / (0.05 * kGiB));
    double level = 20 * kGiB;
    std::vector<double> levels;
    while (level < kLimit.low) levels.push_back(level += amount(random));
    const size_t seen = levels.size() * 3 / 4;
    const Forecast forecast = ForecastOf({levels.begin(), levels.begin() + static_cast<std::ptrdiff_t>(seen)}, kLimit);
    ASSERT_EQ(forecast.kind, ForecastKind::kReaches) << seed;
    const auto left = static_cast<double>(levels.size() - seen);
    held += forecast.earliest <= left && left <= forecast.latest;
  }
  EXPECT_GE(held, kRuns * 8 / 10);
}

}  // namespace
}  // namespace gpumem
