// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// torch.profiler's traces, from a file to the answer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "import/import.h"
#include "import/profiler_frames.h"
#include "imported.h"
#include "symbols/symbolizer.h"

namespace gpumem {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Memory(uint64_t address, int64_t bytes, double time, uint64_t total, int type = 1) {
  return absl::StrCat(R"({"ph":"i","name":"[memory]","ts":)", time, R"(,"tid":5,"args":{"Addr":)", address,
                      R"(,"Bytes":)", bytes, R"(,"Device Id":0,"Device Type":)", type, R"(,"Total Allocated":)", total,
                      R"(,"Total Reserved":2097152}})");
}

std::string Profile(const std::string& events) {
  return absl::StrCat(R"({"schemaVersion":1,"baseTimeNanoseconds":1700000000000000000,"deviceProperties":[{"id":0}],)",
                      R"("traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::add","args":{"Bytes":[[1]]}},)", events,
                      "]}");
}

TEST(ProfilerTraceTest, PeakIsTheTotal) {
  // 1,000 bytes from before, of which 300 are freed; the file's order is not that of time.
  const std::string events = absl::StrCat(Memory(9000, -300, 3, 1200), ",", Memory(5000, 500, 2, 1500), ",",
                                          Memory(7000, 64, 2.5, 64, /*type=*/0), ",", Memory(5000, -500, 4, 700));
  for (const std::string& bytes : {Profile(events), Gzip(Profile(events))}) {
    ImportResult result;
    const auto analysis = Import(bytes, &result);
    ASSERT_TRUE(analysis.ok()) << analysis.status();
    EXPECT_EQ(analysis->devices[0].peak_allocated.bytes, 1500u);
    EXPECT_EQ(analysis->devices[0].end.allocated, 700u);
    EXPECT_EQ(result.format, "torch.profiler trace");
    EXPECT_THAT(result.notes, Contains(HasSubstr("1000 B were allocated before the profile")));
    EXPECT_THAT(result.notes, Contains(HasSubstr("1 event of memory that is on no GPU was left out")));
  }
}

TEST(ProfilerTraceTest, RefusesWhatIsNone) {
  EXPECT_THAT(std::string(Import("{\"a\": 1}").status().message()), HasSubstr("no memory event"));
  const std::string whole = Profile(Memory(5000, 500, 2, 500));
  EXPECT_TRUE(Import(whole).ok());
  EXPECT_THAT(std::string(Import(whole.substr(0, whole.size() - 5)).status().message()),
              HasSubstr("cut short, at byte"));
  EXPECT_TRUE(absl::IsDataLoss(Import("[" + std::string(100000, '[')).status()));
}

// Without an address and totals, as older PyTorch wrote them.
std::string Old(int64_t bytes, double time) {
  return absl::StrCat(R"({"ph":"i","s":"t","name":"[memory]","pid":1,"tid":1,"ts":)", time,
                      R"(,"args":{"Device Type":1,"Device Id":0,"Bytes":)", bytes, "}}");
}

std::string Span(const char* category, const char* name, double time, double duration, const char* more = "") {
  return absl::StrCat(R"({"ph":"X","cat":")", category, R"(","name":")", name, R"(","pid":0,"tid":"5","ts":)", time,
                      R"(,"dur":)", duration, R"(,"args":{)", more, "}}");
}

// Of the block that holds most at the peak, innermost first.
std::vector<std::string> FramesAtPeak(const std::vector<std::string>& events, StackTable* stacks) {
  std::vector<std::string> frames;
  const auto analysis = Import(Profile(absl::StrJoin(events, ",")), nullptr, stacks);
  if (!analysis.ok() || analysis->devices[0].at_peak_allocated.stacks.empty()) return {"none"};
  Symbolizer symbolizer(stacks);
  for (const ResolvedFrame& frame : symbolizer.Resolve(analysis->devices[0].at_peak_allocated.stacks[0].stack_id)) {
    frames.push_back(absl::StrCat(frame.file, frame.line == 0 ? "" : absl::StrCat(":", frame.line),
                                  frame.file.empty() ? "" : " ", frame.function));
  }
  return frames;
}

constexpr char kCut[] = "<callers not recorded>";

TEST(ProfilerTraceTest, KnowsEveryKindOfDevice) {
  for (const auto& [kind, allocator] : {std::pair(6, "HIP"), {12, "XPU"}, {19, "MTIA"}, {20, "PrivateUse1"}}) {
    const auto analysis = Import(Profile(Memory(5000, 500, 2, 500, kind)));
    ASSERT_TRUE(analysis.ok()) << analysis.status();
    EXPECT_EQ(analysis->devices[0].peak_allocated.bytes, 500u);
    EXPECT_EQ(analysis->devices[0].device, 0) << allocator;
  }
  for (const int host : {0, 2, 5, 14}) {
    EXPECT_THAT(std::string(Import(Profile(Memory(5000, 500, 2, 500, host))).status().message()),
                HasSubstr("1 of the CPU"));
  }
  // Two kinds in one file: neither hides the other.
  ImportResult result;
  const auto both = Import(Profile(absl::StrCat(Memory(5000, 500, 2, 500), ",", Memory(5000, 64, 3, 64, 12), ",",
                                                Memory(6000, 500, 4, 1000))),
                           &result);
  ASSERT_EQ(both->devices.size(), 2u);
  EXPECT_EQ(both->devices[1].peak_allocated.bytes, 64u);
  EXPECT_THAT(result.notes, Contains(HasSubstr("GPU 1: It is XPU device 0 of the profile")));
}

TEST(ProfilerTraceTest, ReservedIsTheTotalThatIsStated) {
  const auto analysis = Import(Profile(Memory(5000, 500, 2, 500)));
  EXPECT_EQ(analysis->devices[0].peak_reserved.bytes, 2097152u);
  EXPECT_EQ(analysis->devices[0].end.reserved, 2097152u);
  EXPECT_EQ(analysis->devices[0].fragmentation.at_peak.free, 0u);
  EXPECT_THAT(analysis->notes, Not(Contains(HasSubstr("was not recorded, so reserved is too low"))));
  EXPECT_EQ(Import(Profile(Old(500, 1)))->devices[0].peak_reserved.bytes, 0u);
}

TEST(ProfilerTraceTest, WithoutAddressesTotalsAreExact) {
  ImportResult result;
  // The second block of 800 goes, and 300 that were there before.
  const auto analysis = Import(
      Profile(absl::StrJoin({Old(800, 1), Old(800, 2), Old(-300, 3), Old(-800, 4), Old(400, 5), Old(800, 6)}, ",")),
      &result);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  EXPECT_EQ(analysis->devices[0].peak_allocated.bytes, 2000u);
  EXPECT_EQ(analysis->devices[0].end.allocated, 2000u);
  EXPECT_EQ(analysis->devices[0].leaks.unknown_frees, 0u);
  EXPECT_THAT(result.notes, Contains(HasSubstr("2 frees were matched to the last block of the same size")));
  EXPECT_THAT(result.notes, Contains(HasSubstr("At least 300 B were allocated before the profile")));
}

TEST(ProfilerTraceTest, NumbersMayBeInQuotes) {
  const auto analysis = Import(
      R"({"traceEvents":[{"ph":"i","name":"[memory]","ts":"2.5","tid":"5","args":{"Addr":"0x5000","Bytes":"500",)"
      R"("Device Id":"0","Device Type":"1","Total Allocated":"700","Total Reserved":"2097152"}}]})");
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  EXPECT_EQ(analysis->devices[0].peak_allocated.bytes, 700u);
  EXPECT_EQ(analysis->devices[0].peak_reserved.bytes, 2097152u);
}

TEST(ProfilerTraceTest, FailedRequestsAreThere) {
  std::string failed = Memory(0, 900, 3, 500);
  failed.replace(failed.find("[memory]"), 8, "[OutOfMemory]");
  ImportResult result;
  const auto analysis = Import(Profile(absl::StrCat(Memory(5000, 500, 2, 500), ",", failed)), &result);
  ASSERT_EQ(analysis->ooms.size(), 1u);
  EXPECT_EQ(analysis->ooms[0].requested, 900u);
  EXPECT_EQ(analysis->ooms[0].torch_reserved, 2097152u);
  EXPECT_TRUE(result.has_failures);
  EXPECT_EQ(analysis->devices[0].peak_allocated.bytes, 500u);
}

TEST(ProfilerTraceTest, SpansAroundABlockAreItsStack) {
  StackTable stacks;
  EXPECT_THAT(
      FramesAtPeak(
          {Memory(5000, 500, 2, 500), Span("cpu_op", "aten::empty", 1.5, 1), Span("cpu_op", "aten::addmm", 1, 2),
           Span("cpu_op", "aten::relu", 4, 2), Span("python_function", "nn.Module: Linear_0", 0.7, 5),
           Span("python_function", "<built-in method f of X object at 0x7f>", 0.8, 4),
           Span("python_function", "torch/nn/functional.py(7): linear", 0.9, 4),
           Span("python_function", "train.py(9): step", 0.5, 9)},
          &stacks),
      ElementsAre("at::_ops::empty::call", "at::_ops::addmm::call", ".../site-packages/torch/nn/functional.py:7 linear",
                  ".../site-packages/torch/nn/modules/module.py Module.__call__", "train.py:9 step", kCut));
  ASSERT_NE(stacks.objects().module(1), nullptr);
  EXPECT_EQ(stacks.objects().module(1)->class_name, "Linear");
}

// As torch.profiler writes them of TorchScript (with_modules=True): an operator inside another one may be deeper.
TEST(ProfilerTraceTest, ModulesOfScriptsAreNamedByTheirAttributes) {
  const char* const outer = R"("Module Hierarchy":"TOP(C)::forward.")";
  const char* const inner =
      R"("Module Hierarchy":"TOP(C)::forward.SELF(C)::call_b.B0(B)::forward.fc(Linear)::forward.")";
  StackTable stacks;
  const std::string call = ".../site-packages/torch/nn/modules/module.py Module.__call__";
  EXPECT_THAT(FramesAtPeak({Memory(5000, 500, 2, 500), Span("cpu_op", "aten::empty", 1.5, 1, inner),
                            Span("cpu_op", "aten::add", 1, 2, inner), Span("cpu_op", "forward", 0.9, 4, outer)},
                           &stacks),
              ElementsAre("at::_ops::empty::call", "at::_ops::add::call", call, call, "forward", call, kCut));
  ASSERT_NE(stacks.objects().module(3), nullptr);
  EXPECT_EQ(stacks.objects().module(1)->class_name, "C");
  EXPECT_EQ(stacks.objects().module(3)->class_name, "Linear");
  EXPECT_EQ(stacks.objects().module(3)->name, "B0.fc");
  // Calls that are spans say the same; and what is not PyTorch's form says nothing.
  StackTable called, other;
  EXPECT_THAT(FramesAtPeak({Memory(5000, 500, 2, 500), Span("cpu_op", "aten::add", 1, 2, inner),
                            Span("python_function", "nn.Module: C_0", 0.7, 5)},
                           &called),
              ElementsAre("at::_ops::add::call", call, kCut));
  EXPECT_THAT(FramesAtPeak({Memory(5000, 500, 2, 500),
                            Span("cpu_op", "aten::add", 1, 2, R"("Module Hierarchy":"model.layers.0.mlp")")},
                           &other),
              ElementsAre("at::_ops::add::call", kCut));
}

TEST(ProfilerTraceTest, OnlySpansOfTheSameThreadAndTime) {
  StackTable stacks;
  std::string other = Span("cpu_op", "aten::mul", 0, 9);
  other.replace(other.find("\"5\""), 3, "6");
  EXPECT_THAT(FramesAtPeak({Memory(5000, 500, 2, 500), other, Span("cpu_op", "aten::early", 0, 1.9),
                            Span("cpu_op", "aten::late", 2.1, 1)},
                           &stacks),
              ElementsAre());
  // Between two that touch nobody knows, but in what contains both.
  EXPECT_THAT(FramesAtPeak({Memory(5000, 500, 2, 500), Span("cpu_op", "aten::a", 1, 1), Span("cpu_op", "aten::b", 2, 1),
                            Span("cpu_op", "aten::both", 0, 9)},
                           &stacks),
              ElementsAre("at::_ops::both::call", kCut));
  // What outlasts what it began in is asynchronous.
  EXPECT_THAT(FramesAtPeak({Memory(5000, 500, 9, 500), Span("cpu_op", "aten::f", 1, 10), Span("cpu_op", "async", 2, 30),
                            Span("cpu_op", "aten::g", 8, 2)},
                           &stacks),
              ElementsAre("at::_ops::g::call", "at::_ops::f::call", kCut));
}

TEST(ProfilerTraceTest, CallStacksOfOperatorsAreLines) {
  StackTable stacks;
  const char* const calls = R"("Call stack":"/a/net.py(12): forward;/a/train.py(3): <module>")";
  EXPECT_THAT(
      FramesAtPeak({Memory(5000, 500, 2, 500), Span("Operator", "aten::conv2d", 1, 3, calls),
                    Span("Operator", "aten::empty", 1.5, 1, calls)},
                   &stacks),
      ElementsAre("at::_ops::empty::call", "at::_ops::conv2d::call", "/a/net.py:12 forward", "/a/train.py:3 <module>"));
}

TEST(ProfilerTraceTest, BackwardNodesHaveTheLineOfTheirForwardPass) {
  StackTable stacks;
  std::string memory = Memory(5000, 500, 12, 500);
  memory.replace(memory.find("\"tid\":5"), 7, "\"tid\":7");
  const auto of_autograd = [](std::string span) {
    span.replace(span.find("\"5\""), 3, "7");
    return span;
  };
  // The gradient is summed by the engine, behind the node itself.
  const std::vector<std::string> frames = FramesAtPeak(
      {memory, of_autograd(Span("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 10, 4)),
       of_autograd(Span("cpu_op", "AddmmBackward0", 11, 0.5)), of_autograd(Span("cpu_op", "aten::sum", 11.7, 1)),
       Span("cpu_op", "aten::addmm", 1, 2), Span("python_function", "train.py(9): step", 0.5, 9),
       R"({"ph":"s","id":4,"pid":0,"tid":5,"ts":1,"cat":"fwdbwd","name":"fwdbwd"})",
       R"({"ph":"f","id":4,"pid":0,"tid":7,"ts":11,"cat":"fwdbwd","name":"fwdbwd","bp":"e"})"},
      &stacks);
  ASSERT_EQ(frames.size(), 6u) << absl::StrJoin(frames, "\n");
  EXPECT_EQ(frames[0], "at::_ops::sum::call");
  EXPECT_EQ(frames[1], "torch::autograd::Engine::evaluate_function");
  EXPECT_THAT(frames[2], HasSubstr("backward of AddmmBackward0"));
  EXPECT_EQ(frames[3], "at::_ops::addmm::call");
  EXPECT_EQ(frames[4], "train.py:9 step");
}

TEST(ProfilerTraceTest, CallersOnAThreadWithoutANumber) {
  StackTable stacks;
  std::string root = Span("python_function", "train.py(30): main", 0, 90, R"("Python id":1,"Python parent id":null)");
  root.replace(root.find("\"5\""), 3, "0");
  EXPECT_THAT(
      FramesAtPeak({Memory(5000, 500, 2, 500), root,
                    Span("python_function", "train.py(9): step", 1, 9, R"("Python id":2,"Python parent id":1)")},
                   &stacks),
      ElementsAre("train.py:9 step", "train.py:30 main", kCut));
}

TEST(ProfilerTraceTest, RankAndDevicesAreSaid) {
  const std::string file =
      absl::StrCat(R"({"distributedInfo":{"backend":"nccl","rank":1,"world_size":4,"pg_config":[{"rank":9}]},)",
                   R"("deviceProperties":[{"id":1,"name":"other"},{"id":0,"name":"A GPU","totalGlobalMem":8388608}],)",
                   R"("traceEvents":[)", Memory(5000, 500, 2, 500), "]}");
  const auto analysis = Import(file);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  EXPECT_EQ(analysis->process.rank, 1);
  EXPECT_EQ(analysis->process.world_size, 4);
  EXPECT_EQ(analysis->devices[0].name, "A GPU");
  EXPECT_EQ(analysis->devices[0].capacity, 8388608u);
}

TEST(ProfilerTraceTest, AStepIsOne) {
  const auto analysis = Import(Profile(
      absl::StrJoin({Memory(5000, 500, 2, 500), Span("user_annotation", "ProfilerStep#3", 1, 5),
                     Span("gpu_user_annotation", "ProfilerStep#3", 2, 5), Span("Operator", "ProfilerStep#4", 7, 5)},
                    ",")));
  size_t steps = 0;
  for (const MarkEntry& entry : analysis->marks.entries()) steps += entry.kind == trace::STEP ? 1 : 0;
  EXPECT_EQ(steps, 2u);
}

TEST(ProfilerTraceTest, PathsOfLibrariesAreTold) {
  EXPECT_EQ(UncutPath("torch/optim/adam.py"), ".../site-packages/torch/optim/adam.py");
  EXPECT_EQ(UncutPath("threading.py"), ".../lib/python3/threading.py");
  for (const char* own : {"train.py", "models/net.py", "/home/me/torch/x.py", "<string>", "C:\\me\\train.py"})
    EXPECT_EQ(UncutPath(own), own);
}

}  // namespace
}  // namespace gpumem
