// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <gmock/gmock.h>

#include "planner/allocator/replayer.h"
#include "testing/mutated_json.h"

namespace gpumem::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kResult[] =
    R"({"torch": "2.11", "backend": "native", "done": 5, "died": {"at": 4, "size": 512, "device": 0, "outside": true},
        "served": 1, "failed": 2, "notes": ["n"], "fit": 99, "stats": {"0": {"reserved_bytes.all.peak": 7,
        "allocated_bytes.all.peak": 6, "num_alloc_retries": 3, "num_ooms": 0}}})";

TEST(ReplayResultTest, IsReadAsTheDriverWritesIt) {
  ReplayedRun run;
  ASSERT_TRUE(ParseReplayResult(kResult, &run).ok());
  EXPECT_EQ(run.done, 5u);
  EXPECT_EQ(run.served, 1u);
  EXPECT_EQ(run.failed, 2u);
  EXPECT_EQ(run.fit, 99u);
  EXPECT_THAT(run.notes, ElementsAre("n"));
  ASSERT_TRUE(run.death.has_value());
  EXPECT_EQ(run.death->size, 512u);
  EXPECT_TRUE(run.death->outside);
  EXPECT_EQ(run.Of(0).peak_reserved, 7u);
  EXPECT_EQ(run.retries, 3u);
  ReplayedRun alive;
  ASSERT_TRUE(ParseReplayResult(R"({"died": null, "fit": null, "stats": {}})", &alive).ok());
  EXPECT_FALSE(alive.death.has_value() || alive.fit.has_value());
}

TEST(ReplayResultTest, WhatIsNoneSaysWhere) {
  ReplayedRun run;
  EXPECT_THAT(ParseReplayResult(R"({"served": "many", "stats": {}})", &run).message(), HasSubstr("served"));
  EXPECT_THAT(ParseReplayResult(R"({"stats": {"0": 5}})", &run).message(), HasSubstr("stats.0"));
  EXPECT_FALSE(ParseReplayResult("{", &run).ok());
  EXPECT_FALSE(ParseReplayResult("{}", &run).ok());
  testing::EachMutation(kResult, [](const std::string& text) {
    ReplayedRun harmed;
    ParseReplayResult(text, &harmed).IgnoreError();
  });
}

}  // namespace
}  // namespace gpumem::plan
