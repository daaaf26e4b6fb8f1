// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/job.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "answers/ranks/read_rank.h"
#include "ranks.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::MakeRank;
using testing::MakeRanks;

TEST(JobTest, AllRanksOfAJob) {
  std::vector<RankSummary> ranks = MakeRanks(4, 100);
  std::reverse(ranks.begin(), ranks.end());
  const Job job = SortIntoJob(ranks);
  EXPECT_EQ(job.expected, 4);
  ASSERT_EQ(job.ranks.size(), 4u);
  EXPECT_EQ(job.ranks[3].rank, 3);
  EXPECT_THAT(job.missing, IsEmpty());
  EXPECT_THAT(job.others, IsEmpty());
}

TEST(JobTest, MissingRanksAreThoseOfTheWorldSize) {
  std::vector<RankSummary> ranks = MakeRanks(6, 100);
  ranks.erase(ranks.begin() + 5);
  ranks.erase(ranks.begin() + 2);
  EXPECT_THAT(SortIntoJob(ranks).missing, ElementsAre(2, 5));
}

TEST(JobTest, WithoutAWorldSizeGapsAreMissing) {
  std::vector<RankSummary> ranks = MakeRanks(4, 100);
  for (RankSummary& rank : ranks) rank.job.world_size = -1;
  ranks.erase(ranks.begin() + 1);
  const Job job = SortIntoJob(ranks);
  EXPECT_EQ(job.expected, -1);
  EXPECT_THAT(job.missing, ElementsAre(1));
}

TEST(JobTest, AnotherJobIsLeftOutWithWhatIsDifferent) {
  std::vector<RankSummary> ranks = MakeRanks(4, 100);
  ranks.push_back(MakeRank(1, 8, 100));
  ranks.back().file = "old.gmtrace";
  ranks.back().job.id = "yesterday";
  const Job job = SortIntoJob(ranks);
  EXPECT_EQ(job.ranks.size(), 4u);
  ASSERT_EQ(job.others.size(), 1u);
  EXPECT_EQ(job.others[0].why, OtherTrace::Why::kOtherJob);
  EXPECT_EQ(job.others[0].text, "job yesterday, world size 8");
  EXPECT_TRUE(job.others[0].matters());
}

TEST(JobTest, TheLatestAttemptOfARankCounts) {
  std::vector<RankSummary> ranks = MakeRanks(2, 100);
  RankSummary again = MakeRank(1, 2, 300);
  again.file = "again.gmtrace";
  again.pid = 900;
  again.start_realtime_ns += 5;
  ranks.push_back(again);
  const Job job = SortIntoJob(ranks);
  EXPECT_EQ(job.ranks[1].file, "again.gmtrace");
  ASSERT_EQ(job.others.size(), 1u);
  EXPECT_EQ(job.others[0].why, OtherTrace::Why::kEarlierAttempt);
}

TEST(JobTest, AChildOfARankIsNotTheRank) {
  std::vector<RankSummary> ranks = MakeRanks(2, 100);
  RankSummary worker = MakeRank(1, 2, 900);
  worker.file = "worker.gmtrace";
  worker.pid = 901;
  worker.start_realtime_ns += 5;
  worker.ancestors = {ranks[1].pid, 1};
  ranks.push_back(worker);
  const Job job = SortIntoJob(ranks);
  EXPECT_EQ(job.ranks[1].pid, 101u);
  EXPECT_EQ(job.others[0].why, OtherTrace::Why::kChild);
  EXPECT_FALSE(job.others[0].matters());
}

TEST(JobTest, TracesThatSayToBeEachOthersChildrenDoNoHarm) {
  std::vector<RankSummary> ranks = {MakeRank(0, 1, 1), MakeRank(0, 1, 2)};
  ranks[1].pid = 5;
  ranks[0].ancestors = {5};
  ranks[1].ancestors = {ranks[0].pid};
  EXPECT_EQ(SortIntoJob(ranks).ranks.size(), 1u);
}

TEST(JobTest, ATraceWithoutARankIsNamed) {
  std::vector<RankSummary> ranks = MakeRanks(2, 100);
  ranks.push_back(MakeRank(-1, 2, 100));
  const Job job = SortIntoJob(ranks);
  EXPECT_EQ(job.ranks.size(), 2u);
  EXPECT_EQ(job.others[0].why, OtherTrace::Why::kNoRank);
}

TEST(JobTest, AHostileWorldSizeTakesNoMemory) {
  const Job job = SortIntoJob({MakeRank(0, 2'000'000'000, 1)});
  EXPECT_LE(job.missing.size(), 100'000u);
}

TEST(JobTest, RanksAsText) {
  EXPECT_EQ(RanksText({3}), "rank 3");
  EXPECT_EQ(RanksText({0, 4}), "ranks 0 and 4");
  EXPECT_EQ(RanksText({0, 4, 7}), "ranks 0, 4 and 7");
  EXPECT_EQ(RanksText({1, 2, 3, 4, 9}), "ranks 1 to 4 and 9");
  EXPECT_EQ(RanksText({0, 2, 4, 6, 8, 10}), "6 ranks (0, 2, 4, 6, ...)");
}

TEST(JobTest, RanksOfFileNames) {
  EXPECT_EQ(RankOfName("runs/gpumemshim.train.123.r7.gmtrace"), 7);
  EXPECT_EQ(RankOfName("snapshot_rank12.pickle"), 12);
  EXPECT_EQ(RankOfName("Rank_3/x-rank-4.pickle"), 4);
  EXPECT_EQ(RankOfName("runs/rank1/memory_snapshot.pickle"), 1);
  EXPECT_EQ(RankOfName("post_update_step2_rank3_pid1187096.pickle"), 3);
  EXPECT_EQ(RankOfName("worker5.1623143089861.pt.trace.json"), 5);
  EXPECT_EQ(RankOfName("num_workers_4.pt.trace.json"), -1);
  EXPECT_EQ(RankOfName("run.gmtrace"), -1);
  EXPECT_EQ(RankOfName("my.run.gmtrace"), -1);
  EXPECT_EQ(RankOfName("frank.gmtrace"), -1);
}

}  // namespace
}  // namespace gpumem
