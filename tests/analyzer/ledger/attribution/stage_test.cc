// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/stage.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace gpumem {
namespace {

constexpr char kTorch[] = "/v/lib/python3.11/site-packages/torch";

ResolvedFrame PythonCode(const std::string& function, const std::string& file) {
  ResolvedFrame frame;
  frame.function = function;
  frame.file = file;
  frame.python = true;
  return frame;
}

ResolvedFrame Torch(const std::string& function, const std::string& file) {
  return PythonCode(function, kTorch + file);
}

ResolvedFrame NativeCode(const std::string& function) {
  ResolvedFrame frame;
  frame.function = function;
  return frame;
}

ResolvedFrame Mark() {
  ResolvedFrame frame;
  frame.forward = true;
  frame.function = "<backward of MmBackward0>";
  return frame;
}

const ResolvedFrame kCall = Torch("Module._wrapped_call_impl", "/nn/modules/module.py");
const ResolvedFrame kMain = PythonCode("main", "/job/train.py");
const ResolvedFrame kEngine = NativeCode("torch::autograd::Engine::evaluate_function(...)");

TEST(StageTest, WhatIsTriedOutWhileCodeIsCompiledIsNoPass) {
  const ResolvedFrame tried =
      Torch("CachingAutotuner.benchmark_all_configs", "/_inductor/runtime/triton_heuristics.py");
  EXPECT_EQ(StageOf({tried, kCall, kMain}), Stage::kWrapping);
  EXPECT_EQ(StageOf({tried, Mark(), kCall, kMain}), Stage::kWrapping);
}

TEST(StageTest, TheInnermostTellingFrameDecides) {
  EXPECT_EQ(StageOf({kCall, kMain}), Stage::kForward);
  EXPECT_EQ(StageOf({kEngine, kMain}), Stage::kBackward);
  EXPECT_EQ(StageOf({NativeCode("torch::autograd::generated::MmBackward0::apply(...)")}), Stage::kBackward);
  EXPECT_EQ(StageOf({Torch("AdamW.step", "/optim/adamw.py"), kMain}), Stage::kOptimizer);
  EXPECT_EQ(StageOf({Torch("Optimizer.zero_grad", "/optim/optimizer.py"), kMain}), Stage::kZeroGrad);
  EXPECT_EQ(StageOf({PythonCode("Mine.step", "/job/mine.py"),
                     Torch("Optimizer.profile_hook_step.<locals>.wrapper", "/optim/optimizer.py")}),
            Stage::kOptimizer);
  EXPECT_EQ(StageOf({Torch("cross_entropy", "/nn/functional.py"), kCall, kMain}), Stage::kLoss);
  EXPECT_EQ(StageOf({Torch("_MultiProcessingDataLoaderIter.__next__", "/utils/data/dataloader.py")}), Stage::kData);
  EXPECT_EQ(StageOf({Torch("load", "/serialization.py")}), Stage::kLoad);
  EXPECT_EQ(StageOf({Torch("save", "/serialization.py")}), Stage::kSave);
  EXPECT_EQ(StageOf({Torch("all_reduce", "/distributed/distributed_c10d.py"), kMain}), Stage::kCollective);
  EXPECT_EQ(StageOf({NativeCode("c10d::Reducer::autograd_hook(...)"), kEngine}), Stage::kCollective);
  EXPECT_EQ(StageOf({Torch("empty_cache", "/cuda/memory.py")}), Stage::kCollection);
  EXPECT_EQ(StageOf({kMain}), Stage::kNone);
  EXPECT_EQ(StageOf(std::vector<ResolvedFrame>{}), Stage::kNone);
}

TEST(StageTest, InsideAForwardMarkItIsBackward) {
  EXPECT_EQ(StageOf({Mark(), kCall, kMain}), Stage::kBackward);
  EXPECT_EQ(StageOf({kCall, Mark(), kCall, kMain}), Stage::kBackward) << "activation checkpointing";
  EXPECT_EQ(StageOf({kCall, kEngine}), Stage::kBackward) << "the same where the mark is missing";
  EXPECT_EQ(StageOf({NativeCode("c10d::Reducer::x()"), Mark(), kMain}), Stage::kCollective);
}

TEST(StageTest, AClosureRunsItsOwnStages) {
  const ResolvedFrame step = Torch("LBFGS.step", "/optim/lbfgs.py");
  EXPECT_EQ(StageOf({kCall, PythonCode("closure", "/job/train.py"), step}), Stage::kForward);
}

TEST(StageTest, EvaluationIsAForwardPassOfOneWhoEvaluates) {
  EXPECT_EQ(StageOf({kCall, PythonCode("Trainer.evaluate", "/v/transformers/trainer.py"), kMain}), Stage::kEvaluation);
  EXPECT_EQ(StageOf({kCall, PythonCode("train", "/job/train.py")}), Stage::kForward);
}

TEST(StageTest, ConstructionOnlyWhereNothingElseTells) {
  const ResolvedFrame made = PythonCode("Block.__init__", "/job/model.py");
  EXPECT_EQ(StageOf({made, kMain}), Stage::kConstruction);
  EXPECT_EQ(StageOf({made, kCall, kMain}), Stage::kForward);
  EXPECT_EQ(StageOf({Torch("Module._apply", "/nn/modules/module.py"), kMain}), Stage::kConstruction);
  EXPECT_EQ(StageOf({PythonCode("Thread.__init__", "/usr/lib/python3.11/threading.py"), kMain}), Stage::kNone);
}

TEST(StageTest, TheOutermostThatSetsUpHasAllInside) {
  const ResolvedFrame load = Torch("load", "/serialization.py"), made = PythonCode("Block.__init__", "/job/model.py");
  const ResolvedFrame pretrained = PythonCode("from_pretrained", "/v/transformers/modeling_utils.py");
  EXPECT_EQ(StageOf({load, pretrained, kMain}), Stage::kConstruction);
  EXPECT_EQ(StageOf({load, kMain}), Stage::kLoad);
  EXPECT_EQ(StageOf({made, pretrained, PythonCode("get_peft_model", "/v/peft/mapping.py"), kMain}), Stage::kLoraSetup);
  EXPECT_EQ(StageOf({Torch("broadcast", "/distributed/distributed_c10d.py"),
                     Torch("DistributedDataParallel.__init__", "/nn/parallel/distributed.py"), kMain}),
            Stage::kWrapping);
  EXPECT_EQ(StageOf({Torch("fully_shard", "/distributed/fsdp/_fully_shard/_fully_shard.py"), kMain}), Stage::kWrapping);
  EXPECT_EQ(StageOf({kCall, Torch("_compile", "/_dynamo/convert_frame.py"), kCall, kMain}), Stage::kWrapping);
  EXPECT_EQ(StageOf({Torch("Adam.__init__", "/optim/adam.py"), kMain}), Stage::kOptimizerSetup);
  EXPECT_EQ(
      StageOf({Torch("Adam.__init__", "/optim/adam.py"), PythonCode("Mine.configure_optimizers", "/job/mine.py")}),
      Stage::kOptimizerSetup);
  EXPECT_EQ(StageOf({made, PythonCode("PrivacyEngine.make_private", "/v/opacus/privacy_engine.py"), kMain}),
            Stage::kPrivacySetup);
  EXPECT_EQ(StageOf({PythonCode("load_dataset", "/job/data.py"), kMain}), Stage::kData);
  EXPECT_EQ(StageOf({Mark(), PythonCode("load_dataset", "/job/data.py")}), Stage::kBackward);
}

TEST(StageTest, EveryStageHasANameOfItsOwn) {
  std::set<std::string> names;
  for (size_t i = 0; i < kStages; ++i) names.insert(std::string(StageName(static_cast<Stage>(i))));
  EXPECT_EQ(names.size(), kStages);
}

TEST(StagePath, ADerivedStageSitsInsideTheProgramsOwn) {
  EXPECT_EQ(StagePath("", Stage::kOptimizer), "optimizer_step");
  EXPECT_EQ(StagePath("", Stage::kNone), "other");
  EXPECT_EQ(StagePath("train", Stage::kBackward), "train > backward");
  EXPECT_EQ(StagePath("train", Stage::kNone), "train");
  EXPECT_EQ(StagePath("train > Optimizer Step", Stage::kOptimizer), "train > Optimizer Step");
  EXPECT_EQ(StagePath("backward > train", Stage::kBackward), "backward > train > backward");
  EXPECT_EQ(StagePathTitle("train", Stage::kOptimizer), "train > optimizer step");
}

}  // namespace
}  // namespace gpumem
