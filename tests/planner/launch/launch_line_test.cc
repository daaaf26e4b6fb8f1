// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/launch/launch_line.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_split.h"

namespace gpumem::plan {
namespace {

// "4 x 8, machine 1 by torchrun"; "?" where the launcher decides.
std::string Read(const std::string& line) {
  const absl::StatusOr<LaunchLine> read = ReadLaunchLine(absl::StrSplit(line, ' ', absl::SkipEmpty()));
  if (!read.ok()) return std::string(read.status().message());
  if (read->launcher.empty()) return "none";
  const std::string per_node = read->per_node.has_value() ? std::to_string(*read->per_node) : "?";
  return std::to_string(read->nodes) + " x " + per_node +
         (read->node_rank == 0 ? "" : ", machine " + std::to_string(read->node_rank)) + " by " + read->launcher;
}

std::string WriteConfig(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/launch_line.yaml";
  std::ofstream(path) << text;
  return path;
}

TEST(LaunchLineTest, TorchrunAsPeopleTypeIt) {
  EXPECT_EQ(Read("torchrun --nproc-per-node 4 train.py"), "1 x 4 by torchrun");
  EXPECT_EQ(Read("/venv/bin/torchrun --standalone --nproc_per_node=2 train.py --nnodes 9"), "1 x 2 by torchrun");
  EXPECT_EQ(Read("torchrun --nnodes 4 --nproc-per-node=8 --node-rank 2 --rdzv-endpoint=n0:29500 train.py"),
            "4 x 8, machine 2 by torchrun");
  EXPECT_EQ(Read("torchrun --nnodes=1:4 --nproc_per_node 8 -m my.train"), "4 x 8 by torchrun");
  EXPECT_EQ(Read("torchrun --nproc-per-node=gpu train.py"), "1 x ? by torchrun");
  EXPECT_EQ(Read("torchrun train.py --nproc-per-node 8"), "1 x 1 by torchrun");
  EXPECT_EQ(Read("python -u -m torch.distributed.run --nproc-per-node 3 train.py"), "1 x 3 by torch.distributed.run");
  EXPECT_EQ(Read("env A=1 B=2 torchrun --nproc-per-node 2 train.py"), "1 x 2 by torchrun");
  EXPECT_EQ(Read("uv run torchrun --nproc-per-node 2 train.py"), "1 x 2 by torchrun");
}

TEST(LaunchLineTest, AccelerateByFlagsAndByFile) {
  setenv("HF_HOME", "/nonexistent", 1);
  EXPECT_EQ(Read("accelerate launch train.py --num_processes 7"), "1 x ? by accelerate launch");
  EXPECT_EQ(Read("accelerate launch --multi_gpu --num_processes 4 train.py"), "1 x 4 by accelerate launch");
  EXPECT_EQ(Read("accelerate launch --num_machines 2 --num_processes=16 --machine_rank 1 -m train"),
            "2 x 8, machine 1 by accelerate launch");
  const std::string file = WriteConfig(
      "distributed_type: 'FSDP'\nfsdp_config:\n  num_machines: 9\nnum_machines: 2  # two\nnum_processes: 16\n");
  EXPECT_EQ(Read("accelerate launch --config_file " + file + " train.py"), "2 x 8 by accelerate launch");
  EXPECT_EQ(Read("accelerate launch --config_file " + file + " --num_machines 1 --num_processes 2 train.py"),
            "1 x 2 by accelerate launch");
  unsetenv("HF_HOME");
}

TEST(LaunchLineTest, DeepSpeed) {
  EXPECT_EQ(Read("deepspeed --num_gpus 8 train.py --deepspeed_config z3.json --num_nodes 3"), "1 x 8 by deepspeed");
  EXPECT_EQ(Read("deepspeed --num_nodes=2 --num_gpus=8 train.py"), "2 x 8 by deepspeed");
  EXPECT_EQ(Read("deepspeed --include localhost:0,1,3 train.py"), "1 x 3 by deepspeed");
  EXPECT_EQ(Read("deepspeed --include=w0@w1:0,2 train.py"), "2 x 2 by deepspeed");
  EXPECT_EQ(Read("deepspeed train.py"), "1 x ? by deepspeed");
}

TEST(LaunchLineTest, WhatIsNoLauncher) {
  for (const char* const line : {"python train.py --nnodes 4", "python -m train", "./run.sh", "env", "",
                                 "accelerate env", "python -c import torchrun", "python torchrun"})
    EXPECT_EQ(Read(line), "none") << line;
  EXPECT_EQ(Read("mpirun -np 4 python train.py"), "1 x ? by mpirun");
}

TEST(LaunchLineTest, ANumberThatIsNone) {
  EXPECT_THAT(Read("torchrun --nproc-per-node 99999999999 train.py"), ::testing::HasSubstr("is not a number"));
  EXPECT_THAT(Read("torchrun --nnodes 4x train.py"), ::testing::HasSubstr("is not a number"));
}

}  // namespace
}  // namespace gpumem::plan
