// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/views/frame_table.h"

#include <gmock/gmock.h>

#include "frames.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using testing::FakeFrames;
using testing::LabelsOf;
using testing::NativeFrame;
using testing::ResolvedPython;
using testing::StackWith;

constexpr char kTorch[] = "/v/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so";
constexpr char kLinear[] = "/v/lib/python3.11/site-packages/torch/nn/modules/linear.py";
constexpr char kModule[] = "/v/lib/python3.11/site-packages/torch/nn/modules/module.py";

Pattern Compiled(const std::string& text) { return *Pattern::Compile(text); }

// What a layer's forward looks like, innermost first.
uint64_t ForwardStack(FakeFrames* source) {
  return source->Stack(
      {NativeFrame("c10::cuda::malloc", kTorch), NativeFrame("at::_ops::empty::call", kTorch),
       NativeFrame("at::_ops::addmm::call", kTorch), NativeFrame("at::_ops::linear::call", kTorch),
       NativeFrame("_PyEval_EvalFrameDefault", "/usr/bin/python3.11"), ResolvedPython("Linear.forward", kLinear, 134),
       ResolvedPython("Module._call_impl", kModule, 1784), ResolvedPython("Block.forward", "/job/model.py", 42),
       ResolvedPython("<module>", "/job/train.py", 9)});
}

TEST(FrameTable, TrimsNativeFramesToTheOperatorThatPythonCalled) {
  FakeFrames source;
  const uint64_t stack = ForwardStack(&source);
  FrameTable table(&source, {}, "/job");
  EXPECT_THAT(LabelsOf(&table, StackWith(stack, 1)),
              ElementsAre("train.py:9 <module>", "model.py:42 Block.forward",
                          "torch/nn/modules/linear.py:134 Linear.forward", "aten::linear"));
}

TEST(FrameTable, ShowsAllNativeFramesOrNone) {
  FakeFrames source;
  const uint64_t stack = ForwardStack(&source);
  FrameRules rules;
  rules.native = NativeFrames::kFull;
  FrameTable full(&source, std::move(rules), "/job");
  EXPECT_EQ(full.Resolve(StackWith(stack, 1)).size(), 9u);
  FrameRules none_rules;
  none_rules.native = NativeFrames::kNone;
  FrameTable none(&source, std::move(none_rules), "/job");
  EXPECT_THAT(LabelsOf(&none, StackWith(stack, 1)), ElementsAre("train.py:9 <module>", "model.py:42 Block.forward",
                                                                "torch/nn/modules/linear.py:134 Linear.forward"));
}

TEST(FrameTable, ShowsForwardMarksWhateverNativeFramesAreShown) {
  FakeFrames source;
  ResolvedFrame mark;
  mark.function = mark.short_function = "<backward of MmBackward0>";
  mark.forward = true;
  const uint64_t stack = source.Stack(
      {NativeFrame("at::_ops::mm::call", kTorch), mark, ResolvedPython("Block.forward", "/job/model.py", 42)});
  for (const NativeFrames native : {NativeFrames::kNone, NativeFrames::kTelling}) {
    FrameRules rules;
    rules.native = native;
    FrameTable table(&source, std::move(rules), "/job");
    const std::vector<std::string> labels = LabelsOf(&table, StackWith(stack, 1));
    ASSERT_GE(labels.size(), 2u);
    EXPECT_EQ(labels[0], "model.py:42 Block.forward");
    EXPECT_EQ(labels[1], "<backward of MmBackward0>");
    EXPECT_EQ(labels.size(), native == NativeFrames::kNone ? 2u : 3u);
  }
}

TEST(FrameTable, AGroupStandsBeforeAllFrames) {
  FakeFrames source;
  const uint64_t stack = ForwardStack(&source);
  FrameRules rules;
  rules.native = NativeFrames::kNone;
  rules.depth = 1;
  rules.group = [](const AggregatedStack& aggregated) {
    return std::vector<std::string>{"outer", aggregated.group == 7 ? "inner" : "other"};
  };
  FrameTable table(&source, std::move(rules), "/job");
  AggregatedStack aggregated = StackWith(stack, 1);
  aggregated.group = 7;
  EXPECT_THAT(LabelsOf(&table, aggregated), ElementsAre("outer", "inner", "train.py:9 <module>"));
}

TEST(FrameTable, KeepsNodesOfTheBackwardPassAndTheProgramsOwnFunctions) {
  FakeFrames source;
  const uint64_t stack =
      source.Stack({NativeFrame("at::_ops::mm::call", kTorch), NativeFrame("my::kernel(int)", "/job/myext.so"),
                    NativeFrame("myext.so+0x12", "/job/myext.so"),
                    NativeFrame("torch::autograd::generated::AddmmBackward0::apply(x)", kTorch),
                    NativeFrame("torch::autograd::generated::AddmmBackward0::apply_inner::apply(x)", kTorch),
                    NativeFrame("torch::autograd::Engine::thread_main", kTorch)});
  FrameTable table(&source, {}, "/job");
  EXPECT_THAT(LabelsOf(&table, StackWith(stack, 1)),
              ElementsAre("AddmmBackward0", "my::kernel(int) (myext.so)", "aten::mm"));
}

TEST(FrameTable, SaysWhatIsKnownWhereNoFrameIsLeft) {
  FakeFrames source;
  source.apis[7] = "cudaMalloc";
  FrameTable table(&source, {}, "/job");
  AggregatedStack unknown = StackWith(0, 1);
  unknown.api = 7;
  EXPECT_THAT(LabelsOf(&table, unknown), ElementsAre("cudaMalloc (stack not known)"));
  const uint64_t nccl = source.Stack({NativeFrame("ncclCommInit", "/usr/lib/libnccl.so.2")});
  AggregatedStack foreign = StackWith(nccl, 1);
  foreign.api = 7;
  EXPECT_THAT(LabelsOf(&table, foreign), ElementsAre("ncclCommInit (libnccl.so.2)"));
}

TEST(FrameTable, SaysWhereAStackWasCutWhateverIsLeftOut) {
  FakeFrames source;
  const ResolvedFrame cut = NativeFrame("<callers not recorded>", "");
  const uint64_t deep =
      source.Stack({NativeFrame("at::_ops::empty::call", kTorch), cut, ResolvedPython("walk", "/job/tree.py", 3), cut});
  const uint64_t native = source.Stack({NativeFrame("ncclCommInit", "/usr/lib/libnccl.so.2"), cut});
  for (const NativeFrames which : {NativeFrames::kNone, NativeFrames::kTelling}) {
    FrameRules rules;
    rules.native = which;
    FrameTable table(&source, std::move(rules), "/job");
    const std::vector<std::string> labels = LabelsOf(&table, StackWith(deep, 1));
    EXPECT_EQ(labels[0], "<callers not recorded>");
    EXPECT_EQ(labels[1], "tree.py:3 walk");
    EXPECT_EQ(labels.size(), which == NativeFrames::kNone ? 2u : 3u);  // the one further in is of native frames
    EXPECT_THAT(LabelsOf(&table, StackWith(native, 1)),
                ElementsAre("<callers not recorded>", "ncclCommInit (libnccl.so.2)"));
  }
}

TEST(FrameTable, LeavesOutIgnoredFramesAndImportMachinery) {
  FakeFrames source;
  const uint64_t stack =
      source.Stack({ResolvedPython("load", "/job/data.py", 3),
                    ResolvedPython("exec_module", "<frozen importlib._bootstrap_external>", 940),
                    ResolvedPython("<module>", "/job/train.py", 1), ResolvedPython("run", "/job/launch.py", 8)});
  FrameRules rules;
  rules.imports = false;
  rules.ignore.push_back(Compiled("launch\\.py"));
  FrameTable table(&source, std::move(rules), "/job");
  EXPECT_THAT(LabelsOf(&table, StackWith(stack, 1)), ElementsAre("train.py:1 <module>", "data.py:3 load"));
}

TEST(FrameTable, InvertsCutsAndSplits) {
  FakeFrames source;
  source.threads[5] = {4711, "autograd"};
  const uint64_t stack = source.Stack(
      {ResolvedPython("c", "/job/m.py", 3), ResolvedPython("b", "/job/m.py", 2), ResolvedPython("a", "/job/m.py", 1)});
  FrameRules rules;
  rules.invert = rules.split_devices = rules.split_threads = true;
  rules.depth = 2;
  FrameTable table(&source, std::move(rules), "/job");
  AggregatedStack aggregated = StackWith(stack, 1);
  aggregated.device = 3;
  aggregated.thread = 5;
  EXPECT_THAT(LabelsOf(&table, aggregated), ElementsAre("GPU 3", "thread 4711 (autograd)", "m.py:3 c", "m.py:2 b"));
}

TEST(FrameTable, FiltersByWhatAStackGoesThrough) {
  FakeFrames source;
  source.threads[5] = {4711, "autograd"};
  const uint64_t forward = ForwardStack(&source);
  const uint64_t other = source.Stack({ResolvedPython("step", "/job/optim.py", 3)});
  FrameTable table(&source, {}, "/job");
  const auto kept = [&](StackFilters filters) {
    FrameTable fresh(&source, {}, "/job");
    AggregatedStacks aggregated = testing::StacksWith({StackWith(forward, 8), StackWith(other, 2)});
    aggregated.stacks[1].thread = 5;
    FilterStacks(filters, &fresh, &aggregated);
    EXPECT_EQ(aggregated.all.bytes, 10u);
    return aggregated.shown.bytes;
  };
  const auto by = [](Pattern StackFilters::*which, const std::string& text) {
    StackFilters filters;
    filters.*which = Compiled(text);
    return filters;
  };
  EXPECT_EQ(kept({}), 10u);
  EXPECT_EQ(kept(by(&StackFilters::function, "^Block\\.")), 8u);
  EXPECT_EQ(kept(by(&StackFilters::function, "aten::linear")), 8u);  // what is shown
  EXPECT_EQ(kept(by(&StackFilters::function, "c10::cuda")), 8u);     // what is not shown
  EXPECT_EQ(kept(by(&StackFilters::file, "/job/optim")), 2u);
  EXPECT_EQ(kept(by(&StackFilters::module, "^torch\\.nn\\.modules\\.linear$")), 8u);
  EXPECT_EQ(kept(by(&StackFilters::module, "libtorch_cpu")), 8u);
  EXPECT_EQ(kept(by(&StackFilters::thread, "^autograd$")), 2u);
  EXPECT_EQ(kept(by(&StackFilters::thread, "^4711$")), 2u);
  StackFilters both = by(&StackFilters::file, "optim");
  both.function = Compiled("Block");
  EXPECT_EQ(kept(std::move(both)), 0u);
}

TEST(Pattern, RefusesWhatIsNoExpression) {
  EXPECT_FALSE(Pattern::Compile("(").ok());
  EXPECT_FALSE(Pattern().is_set());
  EXPECT_TRUE(Pattern().Matches("anything"));
  EXPECT_FALSE(Compiled("a{3}").Matches("aa"));
}

}  // namespace
}  // namespace gpumem
