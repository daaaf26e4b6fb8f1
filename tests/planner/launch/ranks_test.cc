// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/launch/ranks.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <map>

namespace gpumem::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RunRequest RunOf(std::vector<std::string> command) {
  RunRequest run;
  run.command = std::move(command);
  return run;
}

std::string Refusal(const RanksWanted& wanted, std::vector<std::string> command = {"python", "train.py"}) {
  RunRequest run = RunOf(std::move(command));
  return std::string(PlaceRanks(wanted, &run).message());
}

std::map<std::string, std::string> Reported(const RunRequest& run) {
  const auto variables = FakeRanksEnvironment(run, "/folder");
  return {variables.begin(), variables.end()};
}

TEST(RanksTest, OneProcessIsWhatItIs) {
  RunRequest run = RunOf({"python", "train.py"});
  ASSERT_TRUE(PlaceRanks({}, &run).ok());
  EXPECT_EQ(run.device_count, 1);
  EXPECT_EQ(run.world_size, 0);
  EXPECT_TRUE(Reported(run).empty());
  RanksWanted two;
  two.devices = 2;
  ASSERT_TRUE(PlaceRanks(two, &run).ok());
  EXPECT_EQ(run.device_count, 2);
  EXPECT_EQ(Reported(run).size(), 1u) << "several ranks may come: fake_ranks.py is there, and nothing else is said";
  EXPECT_EQ(Reported(run).count("PYTHONPATH"), 1u);
  run.on_gpu = true;
  EXPECT_TRUE(Reported(run).empty());
  run.on_gpu = false;
  EXPECT_THAT(run.command, ElementsAre("python", "train.py"));
}

TEST(RanksTest, APosedRankHearsWhatTorchrunWouldSay) {
  setenv("PYTHONPATH", "/mine", 1);
  RunRequest run = RunOf({"python", "train.py"});
  RanksWanted wanted;
  wanted.rank = 11;
  wanted.world_size = 32;
  ASSERT_TRUE(PlaceRanks(wanted, &run).ok());
  EXPECT_EQ(run.device_count, 8);
  auto reported = Reported(run);
  EXPECT_EQ(reported["RANK"], "11");
  EXPECT_EQ(reported["WORLD_SIZE"], "32");
  EXPECT_EQ(reported["LOCAL_RANK"], "3");
  EXPECT_EQ(reported["LOCAL_WORLD_SIZE"], "8");
  EXPECT_EQ(reported["GROUP_RANK"], "1");
  EXPECT_EQ(reported["GROUP_WORLD_SIZE"], "4");
  EXPECT_EQ(reported["PYTHONPATH"], "/folder:/mine");
  EXPECT_EQ(reported["SIMCUDA_NCCL_ALONE"], "1");
  wanted.per_node = 4;
  wanted.devices = 6;
  ASSERT_TRUE(PlaceRanks(wanted, &run).ok());
  EXPECT_EQ(Reported(run)["GROUP_RANK"], "2");
  EXPECT_EQ(run.device_count, 6);
  unsetenv("PYTHONPATH");
  EXPECT_EQ(Reported(run)["PYTHONPATH"], "/folder");
}

TEST(RanksTest, TheFirstRankIsTheOneWhereNoneIsNamed) {
  RunRequest run = RunOf({"python", "train.py"});
  RanksWanted wanted;
  wanted.world_size = 2;
  ASSERT_TRUE(PlaceRanks(wanted, &run).ok());
  EXPECT_EQ(Reported(run)["RANK"], "0");
  EXPECT_EQ(Reported(run)["LOCAL_WORLD_SIZE"], "2");
  EXPECT_EQ(run.device_count, 2);
}

TEST(RanksTest, TorchrunOfTheSameInterpreter) {
  RanksWanted wanted;
  wanted.per_node = 8;
  RunRequest run = RunOf({"/venv/bin/python3", "-u", "train.py", "--lr", "1"});
  ASSERT_TRUE(PlaceRanks(wanted, &run).ok());
  EXPECT_EQ(run.device_count, 8);
  EXPECT_EQ(run.world_size, 0);
  EXPECT_THAT(run.command, ElementsAre("/venv/bin/python3", "-u", "-m", "torch.distributed.run", "--standalone",
                                       "--nproc-per-node", "8", "train.py", "--lr", "1"));
  RunRequest module = RunOf({"python", "-m", "mine.train"});
  ASSERT_TRUE(PlaceRanks(wanted, &module).ok());
  EXPECT_THAT(module.command, ElementsAre("python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                                          "8", "-m", "mine.train"));
}

TEST(RanksTest, ALauncherInTheCommandSaysHowManyDevicesThereAre) {
  RunRequest run = RunOf({"torchrun", "--nproc-per-node", "4", "train.py"});
  ASSERT_TRUE(PlaceRanks({}, &run).ok());
  EXPECT_EQ(run.device_count, 4);
  EXPECT_EQ(run.world_size, 0) << "all of them are here";
  EXPECT_THAT(run.command, ElementsAre("torchrun", "--nproc-per-node", "4", "train.py"));
  EXPECT_EQ(Reported(run).count("PYTHONPATH"), 1u);
  RanksWanted more;
  more.devices = 8;
  ASSERT_TRUE(PlaceRanks(more, &run).ok());
  EXPECT_EQ(run.device_count, 8);
  RunRequest many = RunOf({"torchrun", "--nproc-per-node", "65", "train.py"});
  EXPECT_THAT(std::string(PlaceRanks({}, &many).message()), HasSubstr("torchrun is to start 65 processes"));
}

TEST(RanksTest, OfSeveralMachinesOneRankIsSimulated) {
  RunRequest run = RunOf({"torchrun", "--nnodes=4", "--nproc-per-node=8", "--node-rank=2", "train.py"});
  ASSERT_TRUE(PlaceRanks({}, &run).ok());
  EXPECT_EQ(run.device_count, 8);
  EXPECT_EQ(run.from_launcher, "torchrun");
  auto reported = Reported(run);
  EXPECT_EQ(reported["RANK"], "16");
  EXPECT_EQ(reported["WORLD_SIZE"], "32");
  EXPECT_EQ(reported["GROUP_WORLD_SIZE"], "4");
  RanksWanted other;
  other.rank = 31;
  ASSERT_TRUE(PlaceRanks(other, &run).ok());
  EXPECT_EQ(Reported(run)["LOCAL_RANK"], "7");
  other.rank = 32;
  EXPECT_THAT(std::string(PlaceRanks(other, &run).message()), HasSubstr("from 0 to 31"));
}

TEST(RanksTest, WhatCannotBeIsRefusedWithWhatToGive) {
  RanksWanted wanted;
  wanted.rank = 3;
  EXPECT_THAT(Refusal(wanted), HasSubstr("--rank 0 --world-size 8"));
  wanted.world_size = 3;
  EXPECT_THAT(Refusal(wanted), HasSubstr("from 0 to 2"));
  wanted.rank = -1;
  EXPECT_THAT(Refusal(wanted), HasSubstr("from 0 to 2"));
  wanted.rank = 2;
  EXPECT_THAT(Refusal(wanted, {"/venv/bin/torchrun", "train.py"}), HasSubstr("torchrun would start them all"));
  EXPECT_THAT(Refusal(wanted, {"python", "-m", "torch.distributed.run", "x.py"}), HasSubstr("torch.distributed.run"));
  wanted.world_size = 0;
  EXPECT_THAT(Refusal(wanted), HasSubstr("--world-size is"));
  wanted = {};
  wanted.per_node = 0;
  EXPECT_THAT(Refusal(wanted), HasSubstr("--nproc-per-node is"));
  wanted.per_node = 2;
  EXPECT_THAT(Refusal(wanted, {"torchrun", "train.py"}), HasSubstr("in the command already"));
  EXPECT_THAT(Refusal(wanted, {"./train.sh"}), HasSubstr("needs the interpreter"));
  wanted = {};
  wanted.devices = 65;
  EXPECT_THAT(Refusal(wanted), HasSubstr("--device-count is"));
}

}  // namespace
}  // namespace gpumem::plan
