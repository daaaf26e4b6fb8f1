// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "report/phase.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace gpumem {
namespace {

using testing::Native;
using testing::Python;

constexpr char kModule[] = "/v/site-packages/torch/nn/modules/module.py";

TEST(PhaseOf, TellsByTheInnermostTellingFrame) {
  const ResolvedFrame call = Python("Module._wrapped_call_impl", kModule, 1775);
  const ResolvedFrame node =
      Native("torch::autograd::generated::AddmmBackward0::apply(std::vector<at::Tensor>&&)", "/x/libtorch_cpu.so");
  const ResolvedFrame engine = Native("torch::autograd::Engine::thread_main(task)", "/x/libtorch_cpu.so");
  const ResolvedFrame adam = Python("Adam._init_group", "/v/site-packages/torch/optim/adam.py", 178);
  const ResolvedFrame main = Python("main", "/job/train.py", 3);
  EXPECT_EQ(PhaseOf({call, main}), "forward");
  EXPECT_EQ(PhaseOf({node, engine}), "backward");
  EXPECT_EQ(PhaseOf({engine}), "backward");
  EXPECT_EQ(PhaseOf({adam, main}), "optimizer step");
  EXPECT_EQ(PhaseOf({call, engine}), "backward") << "activation checkpointing runs the forward again";
}

TEST(PhaseOf, ConstructionOnlyWhereNothingElseTells) {
  const ResolvedFrame made = Python("GPT.__init__", "/job/model.py", 67);
  EXPECT_EQ(PhaseOf({made, Python("main", "/job/train.py", 3)}), "model construction");
  EXPECT_EQ(PhaseOf({Python("main", "/job/train.py", 3)}), "");
  EXPECT_EQ(PhaseOf({}), "");
}

TEST(ReachedBy, IsTheStackThatAllocatedLast) {
  LiveSet live;
  live.time_ns = 50;
  live.stacks.resize(2);
  live.stacks[0].newest_ns = 40;
  EXPECT_EQ(ReachedBy(live), nullptr);
  live.stacks[1].newest_ns = 50;
  EXPECT_EQ(ReachedBy(live), &live.stacks[1]);
}

}  // namespace
}  // namespace gpumem
