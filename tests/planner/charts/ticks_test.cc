// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/ticks.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace gpumem::plots {
namespace {

using ::testing::ElementsAre;

constexpr double kGiBytes = 0x1p30;

std::vector<std::string> Labels(double low, double high, size_t most, Unit unit) {
  std::vector<std::string> labels;
  for (const Tick& tick : NiceTicks(low, high, most, unit)) labels.push_back(tick.label);
  return labels;
}

TEST(TicksTest, AreRoundInTheUnitThatFits) {
  EXPECT_THAT(Labels(0, 13.1 * kGiBytes, 6, Unit::kBytes), ElementsAre("0", "5 GiB", "10 GiB", "15 GiB"));
  EXPECT_THAT(Labels(0, 900 * 0x1p20, 5, Unit::kBytes), ElementsAre("0", "250 MiB", "500 MiB", "750 MiB", "1000 MiB"));
  EXPECT_THAT(Labels(0, 3, 6, Unit::kBytes), ElementsAre("0", "1 B", "2 B", "3 B"));
  EXPECT_THAT(Labels(0, 0.0042, 3, Unit::kSeconds), ElementsAre("0", "2.5 ms", "5 ms"));
  EXPECT_THAT(Labels(0, 240, 5, Unit::kSeconds), ElementsAre("0", "1 min", "2 min", "3 min", "4 min"));
  EXPECT_THAT(Labels(-1, 1, 3, Unit::kNumber), ElementsAre("-1", "0", "1"));
}

TEST(TicksTest, CoverTheRangeWhateverItIs) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const std::pair<double, double> ranges[] = {{0, 0},   {5, 5},   {3, 1},   {0, 1e-300},   {0, 1.8e19},
                                              {0, inf}, {nan, 1}, {-7, -7}, {1e9, 1e9 + 1}};
  for (const auto& [low, high] : ranges) {
    for (const Unit unit : {Unit::kNumber, Unit::kBytes, Unit::kSeconds}) {
      const std::vector<Tick> ticks = NiceTicks(low, high, 6, unit);
      ASSERT_GE(ticks.size(), 2u) << low << " " << high;
      EXPECT_LE(ticks.size(), 100u);
      for (size_t i = 0; i < ticks.size(); ++i) {
        EXPECT_TRUE(std::isfinite(ticks[i].value));
        EXPECT_TRUE(i == 0 || ticks[i - 1].value < ticks[i].value);
      }
      if (std::isfinite(low) && std::isfinite(high) && high > low) {
        EXPECT_LE(ticks.front().value, low);
        EXPECT_GE(ticks.back().value, high * (1 - 1e-9));
      }
    }
  }
}

TEST(TicksTest, ShortLabels) {
  EXPECT_EQ(ShortLabel(24 * kGiBytes, Unit::kBytes), "24 GiB");
  EXPECT_EQ(ShortLabel(3.7 * kGiBytes, Unit::kBytes), "3.70 GiB");
  EXPECT_EQ(ShortLabel(68.71 * kGiBytes, Unit::kBytes), "68.7 GiB");
  EXPECT_EQ(ShortLabel(1018.1 * 0x1p20, Unit::kBytes), "1018 MiB");
  EXPECT_EQ(ShortLabel(0, Unit::kBytes), "0 B");
  EXPECT_EQ(ShortLabel(4096, Unit::kNumber), "4096");
  EXPECT_EQ(ShortLabel(0.001, Unit::kNumber), "0.001");
  EXPECT_EQ(ShortLabel(2.5e6, Unit::kNumber), "2.50M");
  EXPECT_EQ(ShortLabel(0, Unit::kSeconds), "0 s");
  EXPECT_EQ(ShortLabel(90, Unit::kSeconds), "1.50 min");
  EXPECT_EQ(ShortLabel(std::nan(""), Unit::kBytes), "0 B");
}

}  // namespace
}  // namespace gpumem::plots
