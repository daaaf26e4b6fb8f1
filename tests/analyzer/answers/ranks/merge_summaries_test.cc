// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/merge_summaries.h"

#include <gmock/gmock.h>

#include "answers/ranks/peak_groups.h"
#include "ranks.h"

namespace gpumem {
namespace {

using testing::kMiB;
using testing::MakeRank;

// What a trace tells that holds steps `first` to `last` of the process, counted from where it begins.
RankSummary Window(uint64_t first, uint64_t last) {
  RankSummary rank = MakeRank(0, 2, 0, 0);
  rank.steps = StepPeaks();
  for (uint64_t step = first; step <= last; ++step) {
    const uint64_t number = step - first + 1;
    rank.steps.Add({number, step * kMiB, step * kMiB}, true);
    rank.step_ends.push_back({number, step * 1000});
    rank.peak_allocated = rank.peak_total = step * kMiB;
  }
  rank.events = 10 * (last - first + 1);
  rank.events_before = 10 * (first - 1);
  return rank;
}

TEST(MergeSummariesTest, StepsGetTheNumbersOfTheProcess) {
  RankSummary merged = Window(1, 10);
  for (uint64_t first = 8; first < 400; first += 7) merged = MergeSummaries(merged, Window(first, first + 10));
  EXPECT_FALSE(merged.steps_missed);
  EXPECT_EQ(merged.steps.last_ended(), 403u);
  EXPECT_EQ(merged.steps.complete(), 403u);
  for (uint64_t step = 1; step <= 403; ++step) ASSERT_EQ(merged.steps.InWindow(step)->allocated, step * kMiB) << step;
  EXPECT_EQ(merged.events, 0u) << "not known";
  EXPECT_EQ(merged.peak_allocated, 403 * kMiB);
}

TEST(MergeSummariesTest, StepsBehindAGapAreLeftOut) {
  const RankSummary merged = MergeSummaries(MergeSummaries(Window(1, 10), Window(20, 30)), Window(25, 40));
  EXPECT_TRUE(merged.steps_missed);
  EXPECT_EQ(merged.steps.last_ended(), 10u);
  EXPECT_EQ(merged.peak_allocated, 40 * kMiB) << "peaks are known all the same";
}

TEST(MergeSummariesTest, ThePeakIsTheHigherOnesWithAllThatIsSaidOfIt) {
  RankSummary high = Window(1, 50), low = Window(45, 48);
  high.knows_peak_groups = low.knows_peak_groups = true;
  high.peak_groups = {{Category::kGradient, "a", "train.py:1", 7, 1}};
  high.categories[Index(Category::kGradient)] = 7;
  low.peak_groups = {{Category::kParameter, "b", "train.py:2", 3, 1}};
  const RankSummary merged = MergeSummaries(high, low);
  EXPECT_EQ(merged.peak_groups, high.peak_groups);
  EXPECT_EQ(merged.categories, high.categories);
  EXPECT_EQ(merged.peak_allocated, 50 * kMiB);
}

TEST(MergeSummariesTest, TheTimelineStaysBounded) {
  RankSummary merged = Window(1, 2);
  for (uint64_t i = 0; i < 100; ++i) {
    RankSummary later = Window(1, 2);
    for (uint64_t point = 0; point < 240; ++point)
      later.timeline.push_back({i * 1000 + point, i == 50 && point == 7 ? 999 : point});
    merged = MergeSummaries(merged, later);
  }
  EXPECT_LE(merged.timeline.size(), 240u);
  uint64_t most = 0;
  for (const TimedBytes& point : merged.timeline) most = std::max(most, point.bytes);
  EXPECT_EQ(most, 999u);
}

TEST(PeakGroupsTest, OfTheLastFilesOfASeriesCategoriesAreNotKnown) {
  RunFacts facts;
  facts.has_moment = true;
  facts.groups.resize(1);
  facts.groups[0].category = Category::kActivation;
  RankSummary rank;
  rank.events_before = 1;
  ReadPeakGroups(facts, &rank);
  EXPECT_EQ(rank.peak_groups[0].category, Category::kUnknown);
}

TEST(PeakGroupsTest, TheLargestAreNamedAndTheRestCounted) {
  RunFacts facts;
  facts.has_moment = true;
  for (uint64_t i = 1; i <= kMaxPeakGroups + 2; ++i) {
    LiveGroup group;
    group.category = Category::kActivation;
    group.module = "layers." + std::to_string(i);
    group.bytes = i;
    group.count = 2;
    facts.groups.push_back(group);
    facts.groups.push_back(group);  // by another stack
  }
  RankSummary rank;
  ReadPeakGroups(facts, &rank);
  ASSERT_EQ(rank.peak_groups.size(), kMaxPeakGroups);
  EXPECT_EQ(rank.peak_groups[0], (PeakGroup{Category::kActivation, "layers.66", "", 132, 4}));
  EXPECT_EQ(rank.other_peak_bytes, 2u + 4u);
  EXPECT_TRUE(rank.knows_peak_groups);
}

}  // namespace
}  // namespace gpumem
