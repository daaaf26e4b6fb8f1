// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/settings/process_facts.h"

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

TEST(ProcessFacts, ForkedUntilExec) {
  EXPECT_TRUE(ParseForked("7 (a) b) (c) S 1 7 7 0 -1 4194368 1 2 3"));
  EXPECT_FALSE(ParseForked("7 (a) b) (c) S 1 7 7 0 -1 4194304 1 2 3"));
  EXPECT_FALSE(ParseForked(""));
}

TEST(ProcessFacts, Stat) {
  uint32_t parent = 7;
  const writer::Ancestor odd = ParseStat("7 (a) b) (c) S 5 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2", &parent);
  EXPECT_EQ(odd.pid, 7u);
  EXPECT_EQ(odd.start_ticks, 987654u);
  EXPECT_STREQ(odd.name, "a) b) (c");
  EXPECT_EQ(parent, 5u);
  EXPECT_STREQ(ParseStat("8 (a name that is longer than it may be) S 5 7", &parent).name, "a name that is ");
  for (const char* none : {"", "7", "7 (x", "7 (x)", ")("}) {
    EXPECT_EQ(ParseStat(none, &parent).pid, 0u) << none;
    EXPECT_EQ(parent, 0u) << none;
  }
}

TEST(ProcessFacts, Uuid) {
  uint8_t bytes[16] = {};
  EXPECT_TRUE(ParseUuid("00ff1234-5678-9abc-def0-123456789abc\n", bytes));
  EXPECT_EQ(bytes[0], 0x00);
  EXPECT_EQ(bytes[1], 0xff);
  EXPECT_EQ(bytes[15], 0xbc);
  for (const char* none : {"", "00ff", "00ff1234-5678-9abc-def0-123456789abX"}) EXPECT_FALSE(ParseUuid(none, bytes));
}

TEST(ProcessFacts, Rank) {
  EXPECT_EQ(ParseRank("0"), 0);
  EXPECT_EQ(ParseRank("17"), 17);
  for (const char* none : {"", "-1", "x", "1x", "99999999999"}) EXPECT_EQ(ParseRank(none), -1) << none;
  EXPECT_EQ(ParseRank(nullptr), -1);
}

TEST(ProcessFacts, ACommandLineThatAForkedProcessStandsFor) {
  char out[32];
  EXPECT_EQ(CommandLineOf(7, "7:python\x1ftrain.py\x1f-x", out, sizeof out), 19u);
  EXPECT_EQ(std::string(out, 19), std::string("python\0train.py\0-x\0", 19));
  EXPECT_EQ(CommandLineOf(8, "7:python", out, sizeof out), 0u);  // its parent's
  EXPECT_EQ(CommandLineOf(7, "python", out, sizeof out), 0u);
  EXPECT_EQ(CommandLineOf(7, "", out, sizeof out), 0u);
  EXPECT_EQ(CommandLineOf(7, "7:abcdefghij", out, 6), 5u);
  EXPECT_EQ(std::string(out, 5), std::string("abcd\0", 5));
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
  ASSERT_GE(facts->ancestor_count, 1u);
  EXPECT_EQ(facts->ancestors[0].pid, static_cast<uint32_t>(getppid()));
  EXPECT_GT(facts->pid_namespace, 0u);
  EXPECT_TRUE(facts->has_boot_id);
  EXPECT_EQ(facts->rank, 5);
  EXPECT_EQ(facts->world_size, 8);
  EXPECT_EQ(facts->local_rank, -1);
  EXPECT_STREQ(facts->program, "shim_settings_test");
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
