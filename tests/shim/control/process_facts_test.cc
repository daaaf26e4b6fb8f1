// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/process_facts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace gpumemshim::control {
namespace {

TEST(ProcessFacts, StartTicksBehindAnyName) {
  EXPECT_EQ(ParseStartTicks("7 (a) b) (c) S 1 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2"), 987654u);
  EXPECT_EQ(ParseStartTicks(""), 0u);
  EXPECT_EQ(ParseStartTicks("7 (x) S 1"), 0u);
}

TEST(ProcessFacts, Rank) {
  EXPECT_EQ(ParseRank("0"), 0);
  EXPECT_EQ(ParseRank("17"), 17);
  for (const char* none : {"", "-1", "x", "1x", "99999999999"}) EXPECT_EQ(ParseRank(none), -1) << none;
  EXPECT_EQ(ParseRank(nullptr), -1);
}

TEST(ProcessFacts, OwnProcess) {
  setenv("SLURM_PROCID", "3", 1);
  setenv("RANK", "5", 1);
  setenv("WORLD_SIZE", "8", 1);
  setenv("GPUMEMSHIM_QUIET", "1", 1);
  setenv("MY_SECRET_TOKEN", "never", 1);
  const auto facts = std::make_unique<ProcessFacts>();
  ReadProcessFacts(facts.get());
  EXPECT_EQ(facts->pid, getpid());
  EXPECT_GT(facts->start_ticks, 0u);
  EXPECT_EQ(facts->rank, 5);
  EXPECT_EQ(facts->world_size, 8);
  EXPECT_EQ(facts->local_rank, -1);
  EXPECT_STREQ(facts->program, "shim_control_test");
  EXPECT_GE(facts->argument_count, 1u);

  std::string variables;
  for (uint32_t i = 0; i < facts->environment_count; ++i) {
    variables += std::string(facts->environment[i].key) + "=" + facts->environment[i].value + ";";
  }
  EXPECT_EQ(variables, "RANK=5;WORLD_SIZE=8;SLURM_PROCID=3;");
  ASSERT_EQ(facts->settings_count, 1u);
  EXPECT_STREQ(facts->settings[0].key, "GPUMEMSHIM_QUIET");
  EXPECT_STREQ(facts->settings[0].value, "1");
}

}  // namespace
}  // namespace gpumemshim::control
