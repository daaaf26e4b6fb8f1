// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/judge.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "answers/ranks/ranks_report.h"
#include "ranks.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using testing::HoldParameters;
using ::testing::IsEmpty;
using testing::kMiB;
using testing::MakeRank;
using testing::MakeRanks;
using testing::SetPeaks;

RanksVerdict Judge(const std::vector<RankSummary>& ranks, RanksQuery query = {}) {
  return JudgeRanks(SortIntoJob(ranks), query);
}

std::string Headline(const std::vector<RankSummary>& ranks) {
  const Job job = SortIntoJob(ranks);
  const RanksVerdict verdict = JudgeRanks(job, {});
  return RanksHeadline({job, verdict});
}

TEST(JudgeTest, EqualRanksAreBalanced) {
  for (const int count : {2, 3, 4, 8, 64}) {
    const RanksVerdict verdict = Judge(MakeRanks(count, 100 * kMiB));
    EXPECT_EQ(verdict.kind, RanksKind::kBalanced) << count;
    EXPECT_THAT(verdict.deviations, IsEmpty());
    EXPECT_EQ(verdict.MaxOverMean(), 1);
    EXPECT_EQ(verdict.MaxOverMedian(), 1);
  }
}

TEST(JudgeTest, AnOutlierIsNamed) {
  std::vector<RankSummary> ranks = MakeRanks(8, 100 * kMiB);
  SetPeaks(1, 10, 130 * kMiB, &ranks[5]);
  const RanksVerdict verdict = Judge(ranks);
  EXPECT_EQ(verdict.kind, RanksKind::kUneven);
  ASSERT_EQ(verdict.deviations.size(), 1u);
  EXPECT_THAT(verdict.deviations[0].ranks, ElementsAre(5));
  EXPECT_EQ(verdict.deviations[0].delta(), static_cast<int64_t>(30 * kMiB));
  EXPECT_EQ(verdict.deviations[0].moment, "step 10");
  EXPECT_NE(verdict.deviations[0].compared_to, 5);
  EXPECT_DOUBLE_EQ(verdict.MaxOverMedian(), 1.3);
}

// The properties that the issue asks for, on random jobs: noise of +-0.5 %, one rank 5 to 100 % more or less.
TEST(JudgeTest, APlantedOutlierIsFoundAndTheOrderHasNoInfluence) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const int count = 3 + static_cast<int>(random() % 40);
    const uint64_t base = (10 + random() % 5000) * kMiB;
    std::vector<RankSummary> ranks;
    for (int rank = 0; rank < count; ++rank)
      ranks.push_back(MakeRank(rank, count, base + base * (random() % 100) / 10000, 1 + random() % 2 + 6));
    ASSERT_EQ(Judge(ranks).kind, RanksKind::kBalanced) << round;
    const int odd = static_cast<int>(random() % static_cast<uint64_t>(count));
    const uint64_t percent = 5 + random() % 96;
    const bool is_more = percent > 90 || random() % 2 == 0;
    const uint64_t bytes = is_more ? base + base / 100 * percent + base / 100 : base - base / 100 * percent;
    RankSummary& planted = ranks[static_cast<size_t>(odd)];
    const uint64_t steps = planted.steps.last_ended();
    planted = MakeRank(odd, count, bytes, steps);
    const RanksVerdict verdict = Judge(ranks);
    ASSERT_EQ(verdict.kind, RanksKind::kUneven) << round;
    ASSERT_EQ(verdict.deviations.size(), 1u) << round;
    EXPECT_THAT(verdict.deviations[0].ranks, ElementsAre(odd)) << round;
    const std::string headline = Headline(ranks);
    std::shuffle(ranks.begin(), ranks.end(), random);
    EXPECT_EQ(Headline(ranks), headline) << round;
  }
}

TEST(JudgeTest, NumberingRanksOtherwiseRenamesThemAndNothingElse) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<int> numbers(12);
    std::iota(numbers.begin(), numbers.end(), 0);
    std::shuffle(numbers.begin(), numbers.end(), random);
    std::vector<RankSummary> ranks;
    for (int i = 0; i < 12; ++i)
      ranks.push_back(MakeRank(numbers[static_cast<size_t>(i)], 12, (i < 2 ? 150 : i == 2 ? 180 : 100) * kMiB));
    const RanksVerdict verdict = Judge(ranks);
    ASSERT_EQ(verdict.deviations.size(), 2u);
    EXPECT_THAT(verdict.deviations[0].ranks, ElementsAre(numbers[2]));
    EXPECT_THAT(verdict.deviations[1].ranks, ::testing::UnorderedElementsAre(numbers[0], numbers[1]));
    EXPECT_DOUBLE_EQ(verdict.MaxOverMedian(), 1.8);
  }
}

TEST(JudgeTest, RanksAreAlignedByStep) {
  // A leak: 1 MiB more each step. The other ranks are ahead by a step.
  std::vector<RankSummary> ranks = MakeRanks(4, 100 * kMiB, 30);
  ranks[2] = MakeRank(2, 4, 100 * kMiB, 29);
  for (uint64_t step = 1; step <= 29; ++step) SetPeaks(step, step, (100 + step) * kMiB, &ranks[2]);
  const RanksVerdict verdict = Judge(ranks);
  EXPECT_EQ(verdict.last_step, 29u);
  ASSERT_EQ(verdict.deviations.size(), 1u);
  EXPECT_EQ(verdict.deviations[0].delta(), static_cast<int64_t>(29 * kMiB));
  EXPECT_THAT(verdict.stragglers, IsEmpty());
}

TEST(JudgeTest, WhatTheHighestStepHidesIsFoundInTheOthers) {
  std::vector<RankSummary> ranks = MakeRanks(4, 100 * kMiB);
  SetPeaks(1, 10, 110 * kMiB, &ranks[1]);
  for (RankSummary& rank : ranks) SetPeaks(7, 7, 400 * kMiB, &rank);
  const RanksVerdict verdict = Judge(ranks);
  EXPECT_EQ(verdict.kind, RanksKind::kUneven);
  EXPECT_TRUE(verdict.even_at_peak);
  EXPECT_EQ(verdict.last_step, 10u);
  EXPECT_THAT(verdict.deviations[0].ranks, ElementsAre(1));
}

TEST(JudgeTest, ARankThatIsUnlikeInOneStepIsLeftAlone) {
  std::vector<RankSummary> ranks = MakeRanks(4, 100 * kMiB);
  SetPeaks(8, 8, 130 * kMiB, &ranks[1]);
  const RanksVerdict verdict = Judge(ranks);
  EXPECT_EQ(verdict.kind, RanksKind::kBalanced);
  EXPECT_THAT(verdict.transients, ElementsAre(1));
  EXPECT_EQ(Judge(ranks, {.step = 8}).kind, RanksKind::kUneven) << "where the step was asked for it is named";
}

TEST(JudgeTest, WhatIsOverAfterTheFirstStepsDoesNotCount) {
  std::vector<RankSummary> ranks = MakeRanks(4, 100 * kMiB);
  SetPeaks(2, 4, 160 * kMiB, &ranks[3]);
  ranks[3].peak_total = ranks[3].peak_reserved = 100 * kMiB;
  EXPECT_EQ(Judge(ranks).kind, RanksKind::kBalanced);
}

TEST(JudgeTest, StagesOfAPipelineDifferByDesign) {
  std::vector<RankSummary> ranks = MakeRanks(8, 100 * kMiB);
  for (size_t i = 0; i < 8; ++i) {
    const uint64_t stage = i % 4;
    HoldParameters({stage * 2 + 1, stage * 2 + 2}, 1, &ranks[i]);
    if (stage == 0) SetPeaks(1, 10, 150 * kMiB, &ranks[i]);
  }
  RanksVerdict verdict = Judge(ranks);
  EXPECT_EQ(verdict.kind, RanksKind::kByDesign);
  EXPECT_EQ(verdict.parts, 4u);
  ASSERT_EQ(verdict.deviations.size(), 1u);
  EXPECT_THAT(verdict.deviations[0].ranks, ElementsAre(0, 4));
  EXPECT_TRUE(verdict.deviations[0].by_design);
  EXPECT_THAT(
      Headline(ranks),
      ::testing::StartsWith("balanced within each of 4 parts of the model; by design ranks 0 and 4 hold 50 MiB"));
  // Where a part is in one rank alone, nothing is said of balance within it.
  const std::vector<RankSummary> alone(ranks.begin(), ranks.begin() + 4);
  EXPECT_THAT(
      Headline(alone),
      ::testing::HasSubstr("the ranks hold 4 different parts of the model and differ by design; rank 0 holds 50 MiB"));
  // An outlier within a stage is named all the same, and first.
  SetPeaks(1, 10, 120 * kMiB, &ranks[6]);
  verdict = Judge(ranks);
  EXPECT_EQ(verdict.kind, RanksKind::kUneven);
  EXPECT_THAT(verdict.deviations[0].ranks, ElementsAre(6));
  EXPECT_EQ(verdict.deviations[0].compared_to, 2);
}

TEST(JudgeTest, WithoutStepsPeaksOfRunsAreCompared) {
  std::vector<RankSummary> ranks = MakeRanks(3, 100 * kMiB, 0);
  ranks[0].peak_allocated = 120 * kMiB;
  const RanksVerdict verdict = Judge(ranks);
  EXPECT_FALSE(verdict.by_step);
  EXPECT_THAT(verdict.deviations[0].ranks, ElementsAre(0));
  EXPECT_EQ(verdict.deviations[0].moment, "peak");
}

TEST(JudgeTest, CudaMemoryBeyondPyTorchIsComparedToo) {
  std::vector<RankSummary> ranks = MakeRanks(4, 1000 * kMiB);
  ranks[0].context = 500 * kMiB;
  RanksVerdict verdict = Judge(ranks);
  EXPECT_EQ(verdict.subject, RanksSubject::kCudaMemory);
  EXPECT_THAT(verdict.deviations[0].ranks, ElementsAre(0));
  ranks[0].context = 20 * kMiB;
  verdict = Judge(ranks);
  EXPECT_EQ(verdict.kind, RanksKind::kBalanced);
  EXPECT_EQ(verdict.subject, RanksSubject::kAllocated);
}

TEST(JudgeTest, ARankThatStoppedEarlyDoesNotHoldTheOthersBack) {
  std::vector<RankSummary> ranks = MakeRanks(5, 100 * kMiB, 100);
  SetPeaks(50, 100, 140 * kMiB, &ranks[1]);
  ranks[4] = MakeRank(4, 5, 100 * kMiB, 3);
  ranks[4].ending = RunEnding::kKilled;
  const RanksVerdict verdict = Judge(ranks);
  EXPECT_THAT(verdict.deviations[0].ranks, ElementsAre(1));
  EXPECT_THAT(verdict.not_compared, ElementsAre(4));
  ASSERT_EQ(verdict.stragglers.size(), 1u);
  EXPECT_EQ(verdict.stragglers[0].behind, 97u);
  EXPECT_THAT(Headline(ranks),
              ::testing::StartsWith(
                  "rank 4 stopped early (after step 3, 97 steps before the median rank); rank 1 holds 40 MiB"));
}

TEST(JudgeTest, TheFirstOutOfMemoryComesFirstWithWhatOthersHeld) {
  std::vector<RankSummary> ranks = MakeRanks(3, 100 * kMiB, 10);
  for (RankSummary& rank : ranks) {
    rank.timeline = {{10, 50 * kMiB}, {20, 90 * kMiB}, {30, 100 * kMiB}};
    if (rank.rank == 0) continue;
    rank.oom_realtime_ns = rank.rank == 2 ? 25 : 29;
    rank.oom_step = 11;
    rank.refused_bytes = 8 * kMiB;
    rank.allocated_at_oom = 200 * kMiB;
    rank.ending = RunEnding::kOutOfMemory;
  }
  const RanksVerdict verdict = Judge(ranks);
  ASSERT_TRUE(verdict.first_oom.has_value());
  EXPECT_EQ(verdict.first_oom->rank, 2);
  ASSERT_EQ(verdict.first_oom->others.size(), 2u);
  EXPECT_EQ(verdict.first_oom->others[0].bytes, 90 * kMiB);
  EXPECT_THAT(
      Headline(ranks),
      ::testing::StartsWith(
          "rank 2 ran out of memory first, at step 11 (8 MiB refused, 200 MiB allocated), the others held 90 MiB"));
}

TEST(JudgeTest, ARankThatRanOutOfMemoryEarlyIsComparedInItsLastStep) {
  std::vector<RankSummary> ranks = MakeRanks(4, 100 * kMiB, 40);
  ranks[2] = MakeRank(2, 4, 100 * kMiB, 7);
  for (uint64_t step = 1; step <= 7; ++step) SetPeaks(step, step, (100 + 20 * step) * kMiB, &ranks[2]);
  ranks[2].oom_realtime_ns = 5;
  ranks[2].oom_step = 8;
  ranks[2].ending = RunEnding::kOutOfMemory;
  const RanksVerdict verdict = Judge(ranks);
  EXPECT_EQ(verdict.last_step, 7u);
  ASSERT_EQ(verdict.deviations.size(), 1u);
  EXPECT_THAT(verdict.deviations[0].ranks, ElementsAre(2));
  EXPECT_EQ(verdict.deviations[0].delta(), static_cast<int64_t>(140 * kMiB));
}

TEST(JudgeTest, OneRankIsNothingToCompare) {
  EXPECT_EQ(Judge(MakeRanks(1, 100 * kMiB)).kind, RanksKind::kNothing);
  EXPECT_EQ(Judge({}).kind, RanksKind::kNothing);
}

TEST(JudgeTest, ThousandRanksAtOnce) {
  std::vector<RankSummary> ranks = MakeRanks(1000, 4000 * kMiB, 50);
  SetPeaks(1, 50, 4400 * kMiB, &ranks[777]);
  const RanksVerdict verdict = Judge(ranks);
  ASSERT_EQ(verdict.deviations.size(), 1u);
  EXPECT_THAT(verdict.deviations[0].ranks, ElementsAre(777));
}

}  // namespace
}  // namespace gpumem
