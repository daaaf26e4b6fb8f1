// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/outlook/phase.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace gpumem {
namespace {

constexpr double kGiBAsDouble = 1 << 30;

absl::string_view PhaseAfter(size_t count, const std::function<double(double)>& gib) {
  std::vector<double> levels;
  for (size_t t = 0; t < count; ++t) levels.push_back(kGiBAsDouble * gib(static_cast<double>(t)));
  return PhaseName(PhaseOf(levels, ForecastOf(levels, {80 * kGiBAsDouble, 80 * kGiBAsDouble})));
}

TEST(Phase, IsNamed) {
  EXPECT_EQ(PhaseAfter(5, [](double) { return 20; }), "warm-up");
  EXPECT_EQ(PhaseAfter(300, [](double) { return 20; }), "steady");
  EXPECT_EQ(PhaseAfter(300, [](double t) { return 20 + 0.05 * t; }), "growing");
  EXPECT_EQ(PhaseAfter(300, [](double t) { return 20 + 5 * std::floor(t / 40); }), "staircase");
  EXPECT_EQ(PhaseAfter(300, [](double t) { return 20 + 10 * std::fmod(t, 50) / 50; }), "sawtooth");
  EXPECT_EQ(PhaseAfter(300, [](double t) { return 20 + 30 * (1 - std::exp(-t / 100)); }), "settling");
}

TEST(Phase, OfEvaluationsIsSteady) {
  EXPECT_EQ(PhaseAfter(600, [](double t) { return 20 + (std::fmod(t, 100) < 2 ? 10 : 0); }), "steady");
}

TEST(Phase, OfOddValuesIsSomething) {
  EXPECT_EQ(PhaseName(PhaseOf({}, {})), "warm-up");
  EXPECT_EQ(PhaseAfter(100, [](double) { return 0; }), "steady");
}

}  // namespace
}  // namespace gpumem
