// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/ranks_report.h"

#include <gmock/gmock.h>

#include "ranks.h"
#include "render/draw.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using testing::kMiB;
using testing::MakeRank;
using testing::MakeRanks;
using testing::SetPeaks;

class RanksReportTest : public ::testing::Test {
 protected:
  RanksReport Report() {
    job_ = SortIntoJob(ranks_);
    verdict_ = JudgeRanks(job_, {});
    return {job_, verdict_};
  }
  std::string Headline() { return RanksHeadline(Report()); }
  std::string Text(RanksOptions options = {}) { return ToText(RanksAnswer(Report(), options), TextStyle()); }

  std::vector<RankSummary> ranks_ = MakeRanks(8, 100 * kMiB);
  Job job_;
  RanksVerdict verdict_;
};

TEST_F(RanksReportTest, BalancedRanksAreSaidToBeAndNoneIsNamed) {
  EXPECT_EQ(Headline(), "balanced: 8 ranks, all hold 100 MiB at step 10");
}

TEST_F(RanksReportTest, WhatIsMissingIsSaidFirst) {
  ranks_[2].damage = "cut off";
  ranks_.erase(ranks_.begin() + 6, ranks_.begin() + 8);
  ranks_.push_back(MakeRank(1, 16, 100 * kMiB));
  ranks_.back().file = "other.gmtrace";
  EXPECT_EQ(Headline(),
            "ranks 6 and 7 of 8 are missing; rank 2 has a damaged trace; 1 trace is of another job (world size 16); "
            "balanced: 6 ranks, all hold 100 MiB at step 10");
  EXPECT_THAT(Text(), HasSubstr("other.gmtrace: world size 16"));
}

TEST_F(RanksReportTest, TheWorstRankIsNamedWithItsCause) {
  SetPeaks(1, 10, 131 * kMiB, &ranks_[3]);
  const RanksReport report = Report();
  verdict_.deviations[0].cause = {CauseKind::kGroup, "buffers at t.py:3 f, none -> 31 MiB", 31 << 20};
  EXPECT_EQ(
      RanksHeadline(report),
      "rank 3 holds 31 MiB (31 %) more than rank 4, the median rank, at step 10: buffers at t.py:3 f, none -> 31 MiB");
}

TEST_F(RanksReportTest, WhereAllDifferTheyAreComparedWithTheMedian) {
  ranks_ = MakeRanks(4, 100 * kMiB);
  for (const int rank : {1, 2, 3}) SetPeaks(1, 10, (100 + 100 * static_cast<uint64_t>(rank)) * kMiB, &ranks_[rank]);
  EXPECT_THAT(Headline(), HasSubstr("rank 3 holds 200 MiB (100 %) more than rank 1, the median rank, at step 10"));
}

TEST_F(RanksReportTest, WhatTheOthersAreComparedWithNeedNotBeTheMedian) {
  ranks_ = MakeRanks(5, 100 * kMiB);
  for (const int rank : {2, 3, 4}) SetPeaks(1, 10, 100 * static_cast<uint64_t>(rank) * kMiB, &ranks_[rank]);
  EXPECT_THAT(Headline(), HasSubstr("rank 4 holds 300 MiB (300 %) more than rank"));
  EXPECT_THAT(Headline(), HasSubstr(", which holds 100 MiB less than the median rank, at step 10"));
}

TEST_F(RanksReportTest, OfTwoRanksNoneIsTheMedian) {
  ranks_ = MakeRanks(2, 100 * kMiB);
  SetPeaks(1, 10, 131 * kMiB, &ranks_[0]);
  EXPECT_THAT(Headline(), ::testing::StartsWith("rank 0 holds 31 MiB (31 %) more than rank 1 at step 10"));
}

TEST_F(RanksReportTest, ListsAreAsLongAsAsked) {
  EXPECT_THAT(Text({.top = 3}), HasSubstr("5 more: --top 0"));
  EXPECT_THAT(Text({.top = 0}), ::testing::Not(HasSubstr("more: --top 0")));
  EXPECT_THAT(Text({.top = 0, .by_step = true}), HasSubstr("most in rank"));
}

TEST_F(RanksReportTest, MemoryOnGpusOfOthersIsNoted) {
  ranks_[3].other_devices[0] = 500 * kMiB;
  EXPECT_THAT(Text(), HasSubstr("beside its own GPU 3"));
  EXPECT_THAT(Headline(), HasSubstr("rank 3 also has 500 MiB on GPU 0, which is another rank's; balanced: 8 ranks"));
  ranks_[3].other_devices[0] = kMiB / 2;
  EXPECT_THAT(Headline(), ::testing::StartsWith("balanced"));
}

}  // namespace
}  // namespace gpumem
