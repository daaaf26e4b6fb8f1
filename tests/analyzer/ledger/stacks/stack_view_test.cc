// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/stacks/stack_view.h"

#include <gmock/gmock.h>

#include "answers/report/fixture.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Native;
using testing::Python;

StackView View(uint64_t stack) {
  testing::Example example = testing::TrainingExample();
  return ViewStack(example.stacks.Frames(stack), "", "/home/me/job");
}

TEST(ViewStack, LeadsWithTheInnermostLineOfTheUser) {
  const StackView view = View(testing::kForward);
  EXPECT_EQ(view.site, "model.py:42 Block.forward");
  EXPECT_EQ(view.through, "aten::linear in torch/nn/modules/linear.py:134 Linear.forward");
  EXPECT_THAT(view.callers, ElementsAre("model.py:88 GPT.forward", "train.py:130 main", "train.py:150 <module>"));
}

TEST(ViewStack, SkipsFunctionsThatOnlyPassCallsOn) {
  EXPECT_EQ(View(testing::kOptimizer).through, "torch/optim/adamw.py:155 AdamW._init_group");
}

TEST(ViewStack, NamesTheNodeOnAnAutogradThread) {
  EXPECT_EQ(View(testing::kBackward).site, "backward of AddmmBackward0 (autograd thread)");
}

TEST(ViewStack, ABackwardPassHasTheLineThatMadeItsNode) {
  ResolvedFrame mark;
  mark.function = mark.short_function = "<backward of MmBackward0>";
  mark.forward = true;
  const ResolvedFrame mm = Native("at::_ops::mm::call(at::Tensor const&)", "/x/libtorch_cpu.so");
  const StackView view = ViewStack({mm, mark, Python("linear", "/v/site-packages/torch/nn/modules/linear.py", 134),
                                    Python("Block.forward", "/home/me/job/model.py", 42)},
                                   "", "/home/me/job");
  EXPECT_EQ(view.site, "model.py:42 Block.forward");
  EXPECT_EQ(view.through, "backward of MmBackward0 in torch/nn/modules/linear.py:134 linear");
  EXPECT_EQ(ViewStack({mm, mark}, "", "/").site, "backward of MmBackward0 (autograd thread)");
}

TEST(ViewStack, NamesTheOperatorWhereThereIsNoNode) {
  const ResolvedFrame malloc = Native("c10::cuda::malloc()", "/x/libc10_cuda.so");
  const ResolvedFrame sum = Native("at::_ops::sum::call(at::Tensor const&)", "/x/libtorch_cpu.so");
  const ResolvedFrame engine = Native("torch::autograd::Engine::thread_main()", "/x/libtorch_cpu.so");
  EXPECT_EQ(ViewStack({malloc, sum, engine}, "", "/").site, "aten::sum (autograd thread)");
  EXPECT_EQ(ViewStack({malloc, sum}, "", "/").site, "aten::sum (no Python frame)");
}

TEST(ViewStack, WhatALibraryKeepsForItselfIsNoLines) {
  const ResolvedFrame allocate =
      Native("c10::cuda::CUDACachingAllocator::allocate(unsigned long)", "/x/libc10_cuda.so");
  const ResolvedFrame workspace = Native("at::cuda::getCUDABlasLtWorkspace()", "/x/libtorch_cuda.so");
  const ResolvedFrame linear = Native("at::_ops::linear::call(at::Tensor const&)", "/x/libtorch_cpu.so");
  const ResolvedFrame line = Python("main", "/home/me/job/train.py", 3);
  const StackView view = ViewStack({allocate, workspace, linear, line}, "", "/home/me/job");
  EXPECT_EQ(view.site, "cuBLAS workspace");
  EXPECT_TRUE(view.is_workspace);
  EXPECT_EQ(view.through, "asked for by aten::linear at train.py:3 main");
  EXPECT_THAT(view.callers, ::testing::IsEmpty());
  EXPECT_EQ(ViewStack({Native("cusolverDnCreate", "/x/libcusolver.so.11"), line}, "", "/").site, "cuSOLVER workspace");
  // A line that runs inside of a call to such a library, and a function of the program's that is called so.
  EXPECT_EQ(ViewStack({allocate, line, workspace}, "", "/home/me/job").site, "train.py:3 main");
  const ResolvedFrame own = Native("MyCublasWorkspace::grow()", "/home/me/job/mine.so");
  EXPECT_FALSE(ViewStack({own, line}, "", "/home/me/job").is_workspace);
}

TEST(ViewStack, LeadsWithTheLibraryThatRunsTheShow) {
  std::vector<ResolvedFrame> frames = {Python("linear", "/v/site-packages/torch/nn/modules/linear.py", 134),
                                       Python("LlamaMLP.forward", "/v/site-packages/transformers/llama.py", 155)};
  for (uint32_t i = 0; i < 6; ++i)
    frames.push_back(Python("Trainer.step", "/v/site-packages/transformers/trainer.py", 100 + i));
  frames.push_back(Python("<module>", "/home/me/job/train.py", 12));
  const StackView view = ViewStack(frames, "", "/home/me/job");
  EXPECT_EQ(view.site, "transformers/llama.py:155 LlamaMLP.forward");
  EXPECT_EQ(view.callers.back(), "train.py:12 <module>");
  // A helper of another package between the user's line and PyTorch does not take its place.
  frames.erase(frames.begin() + 2, frames.begin() + 8);
  EXPECT_EQ(ViewStack(frames, "", "/home/me/job").site, "train.py:12 <module>");
}

TEST(ViewStack, ShowsEscapeSequencesInsteadOfObeyingThem) {
  EXPECT_EQ(View(testing::kNccl).site, "dist\\x1b[31m.py:9 setup");
}

TEST(ViewStack, FallsBackToWhatThereIs) {
  EXPECT_EQ(ViewStack({}, "cudaMalloc", "/").site, "cudaMalloc (stack not known)");
  EXPECT_EQ(ViewStack({}, "", "/").site, "(stack not known)");
  EXPECT_EQ(ViewStack({Python("generate", "/v/site-packages/vllm/engine.py", 7)}, "", "/").site,
            "vllm/engine.py:7 generate");
  EXPECT_EQ(ViewStack({Native("ncclInit", "/usr/lib/libnccl.so.2")}, "", "/").site, "ncclInit (libnccl.so.2)");
  EXPECT_EQ(ViewStack({Native("libx.so+0x12", "/usr/lib/libx.so")}, "cuMemAlloc", "/").site,
            "cuMemAlloc from libx.so+0x12");
}

TEST(ViewStack, TakesTheLineOfANativeProgram) {
  const StackView view = ViewStack({Native("cudaMalloc", "/usr/lib/libcudart.so"),
                                    Native("Grid::Resize(int)", "/home/me/sim", "/home/me/src/grid.cc", 12),
                                    Native("main", "/home/me/sim", "/home/me/src/main.cc", 80)},
                                   "cudaMalloc", "/home/me");
  EXPECT_EQ(view.site, "src/grid.cc:12 Grid::Resize");
  EXPECT_THAT(view.callers, ElementsAre("src/main.cc:80 main"));
}

TEST(ViewStack, PrefersAPythonLineToANamelessNativeFrame) {
  EXPECT_EQ(
      ViewStack({Native("ext.so+0x1f", "/home/me/ext.so"), Python("step", "/home/me/train.py", 3)}, "", "/home/me")
          .site,
      "train.py:3 step");
}

TEST(ListFrames, LeavesNothingOutWhereAllAreAskedFor) {
  testing::Example example = testing::TrainingExample();
  const auto frames = ListFrames(example.stacks.Frames(testing::kForward), NativeFrames::kFull, "/home/me/job");
  EXPECT_EQ(frames.size(), 11u);
  EXPECT_THAT(frames[4], HasSubstr("Module._call_impl"));
}

TEST(ListFrames, TrimsToWhatSaysSomething) {
  const std::string cuda = "/v/site-packages/torch/lib/libtorch_cuda.so",
                    cpu = "/v/site-packages/torch/lib/libtorch_cpu.so";
  const std::string c10 = "/v/site-packages/torch/lib/libc10_cuda.so";
  const std::vector<ResolvedFrame> stack = {
      Native("c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(int, unsigned long)", c10),
      Native("c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)", c10),
      Native("at::detail::empty_generic(c10::ArrayRef<long>)", cpu),
      Native("at::native::addmm_out_cuda(at::Tensor const&)", cuda),
      Native("c10::impl::wrap_kernel_functor_unboxed_<at::X>::call(int)", cuda),
      Native("at::_ops::addmm::redispatch(c10::DispatchKeySet)", cpu),
      Native("at::_ops::addmm::call(at::Tensor const&)", cpu),
      Native("libtorch_python.so+0x12", "/v/site-packages/torch/lib/libtorch_python.so"),
      Native("cfunction_call", "/usr/bin/python3.11", "Objects/methodobject.c", 542),
      Python("Linear.forward", "/v/site-packages/torch/nn/modules/linear.py", 134),
      Native("fast::step(int)", "/home/me/job/fast.so"),
      Python("<module>", "/home/me/job/train.py", 12),
      Native("__libc_start_main", "/lib/x86_64-linux-gnu/libc.so.6"),
      Native("<callers not recorded>", ""),
  };
  EXPECT_THAT(ListFrames(stack, NativeFrames::kTelling, "/home/me/job"),
              ElementsAre(HasSubstr("NativeCachingAllocator::allocate"), HasSubstr("addmm_out_cuda"),
                          HasSubstr("at::_ops::addmm::call"), HasSubstr("Linear.forward"), HasSubstr("fast::step"),
                          HasSubstr("train.py:12"), HasSubstr("callers not recorded")));
  EXPECT_EQ(ListFrames(stack, NativeFrames::kFull, "").size(), stack.size());
  EXPECT_THAT(ListFrames(stack, NativeFrames::kNone, "/home/me/job"),
              ElementsAre(HasSubstr("Linear.forward"), HasSubstr("train.py:12"), HasSubstr("callers not recorded")));
}

TEST(ListFrames, IsNeverEmpty) {
  const std::vector<ResolvedFrame> stack = {Native("libx.so+0x12", "/usr/lib/libx.so")};
  EXPECT_EQ(ListFrames(stack, NativeFrames::kTelling, "").size(), 1u);
  EXPECT_EQ(ListFrames(stack, NativeFrames::kNone, "").size(), 1u);
}

}  // namespace
}  // namespace gpumem
