// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/settings/rank_settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <string>

namespace gpumemshim::control {
namespace {

class RankSettingsTest : public testing::Test {
 protected:
  RankSettingsTest() : facts_(std::make_unique<ProcessFacts>()) {
    facts_->rank = 3;
    facts_->world_size = 8;
    unsetenv("GPUMEMSHIM_SUMMARY");
  }
  ~RankSettingsTest() override { unsetenv("GPUMEMSHIM_SUMMARY"); }

  RankSettings Read(const char* summary) {
    setenv("GPUMEMSHIM_SUMMARY", summary, 1);
    return ReadRankSettings(*facts_);
  }
  std::string Line(const RankSettings& settings) {
    char line[512];
    return std::string(line, RankSettingsLine(settings, line, sizeof line));
  }
  std::unique_ptr<ProcessFacts> facts_;
};

TEST_F(RankSettingsTest, SummariesAreOnForRanksOfAJob) {
  EXPECT_EQ(ReadRankSettings(*facts_).summary_interval_ms, kSummaryIntervalMs);
  EXPECT_FALSE(ReadRankSettings(*facts_).asked_for_summary);
  facts_->forked = true;  // a worker of a rank
  EXPECT_EQ(ReadRankSettings(*facts_).summary_interval_ms, 0u);
  facts_->forked = false;
  facts_->world_size = 1;
  EXPECT_EQ(ReadRankSettings(*facts_).summary_interval_ms, 0u);
  facts_->world_size = 8;
  facts_->rank = -1;
  EXPECT_EQ(ReadRankSettings(*facts_).summary_interval_ms, 0u);
}

TEST_F(RankSettingsTest, TheSettingWins) {
  for (const char* off : {"off", "0", "No", "none"}) EXPECT_EQ(Read(off).summary_interval_ms, 0u) << off;
  EXPECT_EQ(Read("90s").summary_interval_ms, 90'000u);
  facts_->rank = -1;
  EXPECT_EQ(Read("on").summary_interval_ms, kSummaryIntervalMs);
  EXPECT_TRUE(Read("on").asked_for_summary);
  EXPECT_EQ(Read("2h").summary_interval_ms, 7'200'000u);
}

TEST_F(RankSettingsTest, WhatMakesNoSenseIsAbsentAndTold) {
  const RankSettings settings = Read("often\x1b[2J");
  EXPECT_EQ(settings.summary_interval_ms, kSummaryIntervalMs);
  EXPECT_EQ(
      Line(settings),
      "gpumemshim: GPUMEMSHIM_SUMMARY=often?[2J is ignored: it may be on, off, or an interval such as 90s, 10m, 1h "
      "(docs/environment.md)\n");
  EXPECT_EQ(Line(Read("1m")), "");
}

TEST_F(RankSettingsTest, RanksThatAreNotChosenKeepSummariesAlone) {
  setenv("GPUMEMSHIM_RANKS", "0,3", 1);
  setenv("GPUMEMSHIM_SUMMARY", "off", 1);
  EXPECT_FALSE(ReadRankSettings(*facts_).summary_only);
  facts_->rank = 4;
  EXPECT_TRUE(ReadRankSettings(*facts_).summary_only);
  EXPECT_EQ(ReadRankSettings(*facts_).summary_interval_ms, kSummaryIntervalMs) << "nothing else would be left of it";
  facts_->rank = -1;
  EXPECT_FALSE(ReadRankSettings(*facts_).summary_only);
  facts_->rank = 4;
  setenv("GPUMEMSHIM_RANKS", "0;3", 1);
  const RankSettings settings = ReadRankSettings(*facts_);
  EXPECT_FALSE(settings.summary_only);
  EXPECT_EQ(Line(settings),
            "gpumemshim: GPUMEMSHIM_RANKS=0;3 is ignored: it may be a list of ranks to record in full, such as "
            "0,7,16-23,rand:8 (docs/environment.md)\n");
  unsetenv("GPUMEMSHIM_RANKS");
}

TEST(ParseInterval, NumberAndUnit) {
  EXPECT_EQ(ParseInterval("1s"), 1'000u);
  EXPECT_EQ(ParseInterval("10m"), 600'000u);
  EXPECT_EQ(ParseInterval("168h"), 604'800'000u);
  for (const char* bad : {"", "10", "m", "-1s", "1.5m", "1ms", "0s", "169h", "99999999999999999999h", "10 m"})
    EXPECT_EQ(ParseInterval(bad), 0u) << bad;
}

std::set<int64_t> Chosen(const char* text, int64_t world_size, const char* job = "job") {
  ChosenRanks chosen;
  EXPECT_TRUE(chosen.Parse(text)) << text;
  std::set<int64_t> ranks;
  for (int64_t rank = 0; rank < world_size; ++rank) {
    if (chosen.Has(rank, world_size, job)) ranks.insert(rank);
  }
  return ranks;
}

TEST(ChosenRanks, NumbersAndSpans) {
  EXPECT_EQ(Chosen("0,7", 10), (std::set<int64_t>{0, 7}));
  EXPECT_EQ(Chosen(" 2-4 , 9 ", 10), (std::set<int64_t>{2, 3, 4, 9}));
  EXPECT_EQ(Chosen("100", 10), std::set<int64_t>());
}

TEST(ChosenRanks, RandomOnesAreAsManyAsAskedForBesideTheNamedOnes) {
  for (const int64_t world_size : {16, 1000, 10'000}) {
    const std::set<int64_t> chosen = Chosen("0,7,rand:8", world_size);
    EXPECT_EQ(chosen.size(), 10u);
    EXPECT_TRUE(chosen.contains(0) && chosen.contains(7));
  }
  EXPECT_EQ(Chosen("rand:8", 4).size(), 4u) << "no more than there are";
  EXPECT_EQ(Chosen("rand:0", 4).size(), 0u);
}

TEST(ChosenRanks, AnotherJobOrSizeHasOthers) {
  EXPECT_EQ(Chosen("rand:8", 1000), Chosen("rand:8", 1000));
  EXPECT_NE(Chosen("rand:8", 1000, "a"), Chosen("rand:8", 1000, "b"));
  // Over many jobs each rank is chosen about as often as each other.
  int first_half = 0;
  for (int job = 0; job < 100; ++job) {
    for (const int64_t rank : Chosen("rand:8", 100, std::to_string(job).c_str())) first_half += rank < 50 ? 1 : 0;
  }
  EXPECT_GT(first_half, 320);
  EXPECT_LT(first_half, 480);
}

TEST(ChosenRanks, WithoutAWorldSizeRandomIsEveryRank) {
  ChosenRanks chosen;
  ASSERT_TRUE(chosen.Parse("rand:1"));
  EXPECT_TRUE(chosen.Has(99, -1, ""));
}

TEST(ChosenRanks, WhatMakesNoSense) {
  for (const char* bad : {"", ",", "0,", "a", "-1", "3-1", "1-", "rand", "rand:", "rand:x", "0 7", "0;7", "1.5",
                          "12345678", "99999999999999999999"}) {
    ChosenRanks chosen;
    EXPECT_FALSE(chosen.Parse(bad)) << bad;
    EXPECT_FALSE(chosen.Has(0, 10, "")) << bad;
  }
}

}  // namespace

}  // namespace gpumemshim::control
