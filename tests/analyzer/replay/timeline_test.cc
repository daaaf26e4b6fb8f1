// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace gpumem {
namespace {

TEST(TimelineTest, KeepsTheMaximumWhateverTheLength) {
  std::mt19937_64 random(5);
  for (const uint64_t length_ns : {1000ull, 1000000ull, 3600000000000ull}) {
    Timeline timeline(500, 100);
    uint64_t highest = 0;
    uint64_t time = 500;
    for (uint64_t i = 0; i < 5000; ++i) {
      MeasureValues values;
      values.allocated = random() % 1000000;
      values.total = values.reserved = 2000000;
      highest = std::max(highest, values.allocated);
      timeline.Observe(time, i, values);
      time += length_ns / 5000;
    }
    timeline.Finish(time, 5000);
    const std::vector<TimelinePoint> points = timeline.Points();
    EXPECT_LE(points.size(), 100u);
    uint64_t got = 0;
    for (size_t i = 0; i < points.size(); ++i) {
      got = std::max(got, points[i].max.allocated);
      EXPECT_EQ(points[i].max.total, 2000000u);
      EXPECT_GE(points[i].time_ns, points[i == 0 ? 0 : i - 1].time_ns);
    }
    EXPECT_EQ(got, highest);
  }
}

TEST(TimelineTest, CarriesValuesOverQuietTimes) {
  Timeline timeline(0, 10);
  MeasureValues values;
  values.total = 7;
  timeline.Observe(0, 0, values);
  timeline.Finish(1000000000, 1);
  EXPECT_GT(timeline.Points().size(), 4u);
  for (const TimelinePoint& point : timeline.Points()) EXPECT_EQ(point.max.total, 7u);
}

TEST(TimelineTest, SurvivesTimesBeyondReason) {
  Timeline timeline(0, 10);
  timeline.Observe(5, 0, {});
  timeline.Observe(UINT64_MAX, 1, {});
  timeline.Finish(UINT64_MAX, 2);
  EXPECT_LE(timeline.Points().size(), 10u);
}

}  // namespace
}  // namespace gpumem
