// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/settings/rank_settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
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

}  // namespace
}  // namespace gpumemshim::control
