// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "render/sparkline.h"

#include <gmock/gmock.h>

#include "base/utf8.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;

TEST(Sparkline, ScalesFromZeroToTheTop) {
  EXPECT_EQ(Sparkline({0, 1, 50, 100}, 100, true), " ▁▄█");
  EXPECT_EQ(Sparkline({0, 1, 50, 100}, 100, false), " _-#");
  EXPECT_EQ(Sparkline({5, 5}, 0, true), "  ");
  EXPECT_EQ(Sparkline({200}, 100, true), "█");
  EXPECT_EQ(Sparkline({UINT64_MAX}, UINT64_MAX, true), "█");
}

TEST(Resample, KeepsTheLargestOfEachStepAndTheLevelBetween) {
  std::vector<TimelinePoint> points(3);
  points[0].time_ns = 1000;
  points[0].max.total = 5;
  points[1].time_ns = 1010;
  points[1].max.total = 9;
  points[2].time_ns = 1099;
  points[2].max.total = 2;
  EXPECT_THAT(Resample(points, Measure::kTotal, 1000, 1100, 4), ElementsAre(9, 9, 9, 2));
  EXPECT_THAT(Resample(points, Measure::kTotal, 1050, 1100, 2), ElementsAre(0, 2));
  EXPECT_THAT(Resample(points, Measure::kTotal, 1000, 1000, 2), ElementsAre(5, 5));
  EXPECT_THAT(Resample({}, Measure::kTotal, 0, 10, 3), ElementsAre(0, 0, 0));
}

TEST(Chart, StacksRows) {
  EXPECT_THAT(Chart({0, 1, 4, 8}, 8, 2, true), ElementsAre("   █", " ▂██"));
  EXPECT_THAT(Chart({0, 1, 4, 8}, 8, 2, false), ElementsAre("   #", " .##"));
}

}  // namespace
}  // namespace gpumem
