// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/rank_causes.h"

#include <gmock/gmock.h>

#include "absl/status/status.h"
#include "ranks.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using testing::kMiB;
using testing::MakeRanks;
using testing::SetPeaks;

// 100 MiB of activations in each rank, and in rank 5 a buffer beside them.
absl::StatusOr<RunFacts> Facts(const RankSummary& rank, const std::string& moment) {
  RunFacts facts;
  facts.moment = moment;
  facts.has_moment = true;
  LiveGroup group;
  group.category = Category::kActivation;
  group.module = "layers.0.mlp";
  group.place = {"train.py", "forward", 10, "aten::linear"};
  group.count = 1;
  group.bytes = group.smallest = group.largest = 100 * kMiB;
  facts.groups.push_back(group);
  if (rank.rank == 5) {
    group.category = Category::kBuffer;
    group.module = "";
    group.place = {"train.py", "cache", 77, ""};
    group.bytes = group.smallest = group.largest = 30 * kMiB;
    facts.groups.push_back(group);
  }
  for (const LiveGroup& each : facts.groups) facts.values.allocated += each.bytes;
  facts.values.reserved = facts.values.allocated + (rank.rank == 5 ? 300 * kMiB : 0);
  return facts;
}

class RankCausesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<RankSummary> ranks = MakeRanks(8, 100 * kMiB);
    SetPeaks(1, 10, 130 * kMiB, &ranks[5]);
    job_ = SortIntoJob(ranks);
    verdict_ = JudgeRanks(job_, {});
  }
  Job job_;
  RanksVerdict verdict_;
};

TEST_F(RankCausesTest, TheCauseIsThatOfTheDifferenceToTheMedianRank) {
  std::vector<std::pair<int, std::string>> opened;
  FindRankCauses(
      job_, 0,
      [&](const RankSummary& rank, const std::string& moment) {
        opened.emplace_back(rank.rank, moment);
        return Facts(rank, moment);
      },
      &verdict_);
  ASSERT_EQ(verdict_.deviations.size(), 1u);
  EXPECT_THAT(verdict_.deviations[0].cause.text, HasSubstr("train.py:77 cache, none -> 30 MiB"));
  EXPECT_THAT(opened, ::testing::ElementsAre(std::pair(verdict_.median_rank, std::string("step 10")),
                                             std::pair(5, std::string("step 10"))));
}

TEST_F(RankCausesTest, ATraceThatCannotBeReadAgainGivesNoCause) {
  FindRankCauses(
      job_, 0,
      [](const RankSummary&, const std::string&) -> absl::StatusOr<RunFacts> { return absl::NotFoundError("gone"); },
      &verdict_);
  EXPECT_EQ(verdict_.deviations[0].cause.kind, CauseKind::kUnknown);
}

TEST_F(RankCausesTest, ARankThatKeptASummaryAloneHasNoCause) {
  for (RankSummary& rank : job_.ranks) rank.summary_only = rank.rank == 5;
  verdict_ = JudgeRanks(job_, {});
  FindRankCauses(job_, 0, Facts, &verdict_);
  EXPECT_EQ(verdict_.deviations[0].cause.kind, CauseKind::kUnknown);
  EXPECT_EQ(verdict_.deviations[0].without_trace, std::vector<int>{5});
}

TEST_F(RankCausesTest, TheMedianIsARankThatKeptItsTraceWhereThereIsOne) {
  for (RankSummary& rank : job_.ranks) rank.summary_only = rank.rank != 5 && rank.rank != 7;
  verdict_ = JudgeRanks(job_, {});
  FindRankCauses(job_, 0, Facts, &verdict_);
  EXPECT_EQ(verdict_.deviations[0].compared_to, 7);
  EXPECT_THAT(verdict_.deviations[0].cause.text, HasSubstr("train.py:77 cache"));
}

TEST_F(RankCausesTest, OpensNoMoreThanAsked) {
  std::vector<RankSummary> ranks = MakeRanks(8, 100 * kMiB);
  SetPeaks(1, 10, 130 * kMiB, &ranks[5]);
  SetPeaks(1, 10, 120 * kMiB, &ranks[6]);
  job_ = SortIntoJob(ranks);
  verdict_ = JudgeRanks(job_, {});
  ASSERT_EQ(verdict_.deviations.size(), 2u);
  FindRankCauses(job_, 1, Facts, &verdict_);
  EXPECT_NE(verdict_.deviations[0].cause.kind, CauseKind::kNone);
  EXPECT_EQ(verdict_.deviations[1].cause.kind, CauseKind::kNone);
}

}  // namespace
}  // namespace gpumem
