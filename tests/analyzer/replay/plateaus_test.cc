// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/plateaus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace gpumem
