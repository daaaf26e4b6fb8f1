// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace gpumem {
namespace {

using ::testing::ElementsAre;

std::vector<uint64_t> Find(const std::vector<uint64_t>& series, size_t most = 5) {
  PlateauFinder finder(most);
  for (size_t i = 0; i < series.size(); ++i) finder.Observe(series[i], i, i);
  std::vector<uint64_t> heights;
  for (const SeriesPeak& peak : finder.Finish()) {
    EXPECT_EQ(series[peak.event_index], peak.bytes);
    heights.push_back(peak.bytes);
  }
  return heights;
}

TEST(PlateausTest, JoinsWhatIsNotSeparate) { EXPECT_THAT(Find({0, 1000, 960, 990, 0}), ElementsAre(1000)); }
TEST(PlateausTest, SeparatesSteps) { EXPECT_THAT(Find({0, 1000, 500, 900, 100, 950, 0}), ElementsAre(1000, 950, 900)); }
TEST(PlateausTest, KeepsTheHighest) { EXPECT_THAT(Find({0, 1000, 500, 900, 100, 950, 0}, 2), ElementsAre(1000, 950)); }
TEST(PlateausTest, TakesThePeakThatIsNeverLeft) { EXPECT_THAT(Find({0, 500, 100, 2000}), ElementsAre(2000, 500)); }
TEST(PlateausTest, SeesNothingInNothing) { EXPECT_THAT(Find({0, 0, 0}), ElementsAre()); }
TEST(PlateausTest, KeepsTheEarlierOfEquals) {
  PlateauFinder finder(1);
  for (const uint64_t i : {0u, 1u, 2u, 3u, 4u}) finder.Observe(i % 2 == 1 ? 100 : 0, i, i);
  EXPECT_EQ(finder.Finish()[0].event_index, 1u);
}

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
