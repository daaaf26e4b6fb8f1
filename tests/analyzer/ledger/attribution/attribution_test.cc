// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "attribute_trace.h"
#include "testing/sizes.h"

namespace gpumem {
namespace {

using testing::AttributeTrace;
using testing::Call;
using testing::Code;
using testing::kMiB;
using testing::kSegment;
using testing::Mark;
using testing::Peak;
using testing::TrainingTrace;

const char* const kSite = "/v/lib/python3.11/site-packages/";

// Three steps of a model with one layer. Each: a batch comes, forward saves 8 MiB and drops 2, backward makes the
// gradient, the optimizer steps. Gradients are looked at in the first step only.
class Training {
 public:
  Training() {
    model_ = trace.Root("Net");
    layer_ = trace.Module(model_, "encoder.mlp", "MLP");
    optimizer_ = trace.Optimizer("AdamW");
    weight_ = trace.Parameter(model_, "encoder.mlp.weight", kMiB);
    gradient_ = trace.Tensor(trace::GRADIENT, "", weight_);
    state_ = trace.Tensor(trace::OPTIMIZER_STATE, "exp_avg", weight_);
    input_ = trace.Tensor(trace::INPUT);
    const std::string optim = std::string(kSite) + "torch/optim/adamw.py";
    construction_ = trace.Stack({Code("MLP.__init__", "/job/model.py"), Code("<module>", "/job/train.py")});
    data_ = trace.Stack({Code("batch", "/job/train.py", 5), Code("<module>", "/job/train.py")});
    forward_ = trace.Stack(
        {Code("MLP.forward", "/job/model.py", 7), Call(layer_), Call(model_), Code("<module>", "/job/train.py")});
    backward_ = trace.Stack({Mark("AddmmBackward0"), Code("MLP.forward", "/job/model.py", 7), Call(layer_),
                             Call(model_), Code("<module>", "/job/train.py")});
    step_ = trace.Stack({Code("AdamW.step", optim), Code("<module>", "/job/train.py")});
  }

  void Start() {
    trace.builder().CudaAlloc(kSegment, 64 * kMiB, construction_);
    trace.builder().TorchAlloc(kWeight, 4 * kMiB, construction_);
    trace.Place(weight_, kWeight, 4 * kMiB);
  }

  void Step(int number) {
    trace.builder().TorchAlloc(kInput, kMiB, data_);
    trace.Place(input_, kInput, kMiB);
    trace.builder().TorchAlloc(kActivation, 8 * kMiB, forward_);
    trace.builder().TorchAlloc(kTemporary, 2 * kMiB, forward_);
    trace.Saved(kActivation + 4 * kMiB);  // a view of it
    trace.Saved(kWeight);
    trace.builder().TorchFree(kTemporary, 2 * kMiB);
    trace.builder().TorchAlloc(kGradient, 4 * kMiB, backward_);
    trace.builder().TorchFree(kActivation, 8 * kMiB);
    trace.StepBegins(optimizer_);
    if (number == 1) trace.Place(gradient_, kGradient, 4 * kMiB);
    if (number == 1) {
      trace.builder().TorchAlloc(kState, 4 * kMiB, step_);
      trace.Place(state_, kState, 4 * kMiB);
    }
    trace.StepEnds(optimizer_);
    trace.builder().TorchFree(kGradient, 4 * kMiB);
    trace.builder().TorchFree(kInput, kMiB);
  }

  TrainingTrace trace;
  static constexpr uint64_t kWeight = kSegment, kInput = kSegment + 8 * kMiB, kActivation = kSegment + 16 * kMiB,
                            kTemporary = kSegment + 32 * kMiB, kGradient = kSegment + 40 * kMiB,
                            kState = kSegment + 48 * kMiB;

 private:
  uint32_t model_, layer_, optimizer_, weight_, gradient_, state_, input_;
  uint64_t construction_, data_, forward_, backward_, step_;
};

Training WholeTraining() {
  Training training;
  training.Start();
  for (int step = 1; step <= 3; ++step) training.Step(step);
  training.trace.builder().End();
  return training;
}

TEST(AttributeTest, EveryByteOfThePeakHasItsCategory) {
  Training training = WholeTraining();
  AttributionRequest request;
  request.moments = {Peak()};
  const Attribution got = AttributeTrace(training.trace, request);
  const Moment& peak = got.moments.at(0);
  ASSERT_TRUE(peak.found);
  // Of the second step: weight, state, batch, activation, gradient.
  EXPECT_EQ(peak.categories[Index(Category::kParameter)], 4 * kMiB);
  EXPECT_EQ(peak.categories[Index(Category::kOptimizerState)], 4 * kMiB);
  EXPECT_EQ(peak.categories[Index(Category::kInput)], kMiB);
  EXPECT_EQ(peak.categories[Index(Category::kActivation)], 8 * kMiB);
  EXPECT_EQ(peak.categories[Index(Category::kGradient)], 4 * kMiB);
  EXPECT_EQ(peak.categories[Index(Category::kTemporary)], 0u);
  EXPECT_EQ(peak.categories[Index(Category::kUnknown)], 0u);
  EXPECT_EQ(peak.categories[Index(Category::kAllocatorOverhead)], 43 * kMiB);
  EXPECT_EQ(peak.Total(), 64 * kMiB);
  EXPECT_EQ(peak.step, 2u);
  EXPECT_EQ(peak.by_evidence[Index(Category::kParameter)][Index(Evidence::kAddress)], 4 * kMiB);
  EXPECT_EQ(peak.by_evidence[Index(Category::kActivation)][Index(Evidence::kAutograd)], 8 * kMiB);
  EXPECT_EQ(peak.by_evidence[Index(Category::kGradient)][Index(Evidence::kStack)], 4 * kMiB)
      << "gradients were looked at in another step only";
}

TEST(AttributeTest, GradientAndStateBelongToTheModuleOfTheirParameter) {
  Training training = WholeTraining();
  AttributionRequest request;
  request.moments = {Peak()};
  const Attribution got = AttributeTrace(training.trace, request);
  for (const AttributedUse& use : got.moments.at(0).uses) {
    if (use.category == Category::kInput) continue;
    EXPECT_EQ(got.modules.at(use.module).fqn, "encoder.mlp") << CategoryName(use.category);
    EXPECT_EQ(got.modules.at(use.module).class_name, "MLP");
    EXPECT_EQ(got.modules.at(use.module).root_class, "Net");
    EXPECT_EQ(got.modules.at(use.module).component, "mlp");
  }
  EXPECT_EQ(got.moments.at(0).uses.size(), 5u);
}

TEST(AttributeTest, StepsEndWithTheOptimizers) {
  Training training = WholeTraining();
  AttributionRequest request;
  request.steps = true;
  const Attribution got = AttributeTrace(training.trace, request);
  ASSERT_EQ(got.steps.size(), 3u);
  EXPECT_EQ(got.step_source, StepSource::kOptimizer);
  for (size_t i = 0; i < 3; ++i) {
    const AttributedStep& step = got.steps[i];
    EXPECT_EQ(step.step.number, i + 1);
    EXPECT_TRUE(step.step.complete);
    EXPECT_EQ(step.step.peak.values.allocated, (i == 0 ? 17 : 21) * kMiB);
    EXPECT_EQ(step.step.end.values.allocated, 13 * kMiB);
    EXPECT_EQ(step.at_peak[Index(Category::kActivation)], 8 * kMiB);
    EXPECT_EQ(step.at_peak[Index(Category::kGradient)], 4 * kMiB);
    EXPECT_EQ(step.at_end[Index(Category::kOptimizerState)], 4 * kMiB);
  }
  EXPECT_EQ(got.steps[0].step.start.values.allocated, 5 * kMiB);
  EXPECT_EQ(got.steps[1].step.start.values.allocated, 13 * kMiB);
}

TEST(AttributeTest, ModulesHaveWhatTheirCallsDidByStage) {
  Training training = WholeTraining();
  AttributionRequest request;
  request.modules = true;
  const Attribution got = AttributeTrace(training.trace, request);
  int seen = 0;
  for (const ModuleUse& use : got.module_uses) {
    if (got.modules.at(use.module).fqn != "encoder.mlp") continue;
    ++seen;
    if (use.stage == Stage::kForward) {
      EXPECT_EQ(use.allocated_bytes, 30 * kMiB);
      EXPECT_EQ(use.count, 6u);
      EXPECT_EQ(use.peak_bytes, 10 * kMiB);
      EXPECT_EQ(use.saved_bytes, 24 * kMiB);
      EXPECT_EQ(use.saved_peak_bytes, 8 * kMiB);
      EXPECT_EQ(use.temporary_bytes, 6 * kMiB);
    } else {
      EXPECT_EQ(use.stage, Stage::kBackward);
      EXPECT_EQ(use.allocated_bytes, 12 * kMiB);
    }
  }
  EXPECT_EQ(seen, 2);
}

TEST(AttributeTest, InclusivePeaksHaveWhatModulesInsideHold) {
  TrainingTrace trace;
  const uint32_t model = trace.Root("Net"), a = trace.Module(model, "a", "A"), b = trace.Module(model, "b", "B");
  const uint64_t in_a = trace.Stack({Code("A.forward", "/job/a.py"), Call(a), Call(model)});
  const uint64_t in_b = trace.Stack({Code("B.forward", "/job/b.py"), Call(b), Call(a), Call(model)});
  const uint64_t back = trace.Stack({Mark("MmBackward0"), Call(b), Call(a), Call(model)});
  trace.builder().CudaAlloc(kSegment, 20 * kMiB).TorchAlloc(kSegment, kMiB, in_a);
  trace.builder().TorchAlloc(kSegment + kMiB, 2 * kMiB, in_b).TorchFree(kSegment, kMiB);
  trace.builder().TorchAlloc(kSegment + 4 * kMiB, 4 * kMiB, back).TorchFree(kSegment + kMiB, 2 * kMiB).End();
  AttributionRequest request;
  request.modules = true;
  const Attribution got = AttributeTrace(trace, request);
  std::map<std::string, uint64_t> own, inclusive;
  for (const ModuleUse& use : got.module_uses) own[got.modules.at(use.module).fqn] = got.module_peaks[use.module];
  for (size_t row = 0; row < got.modules.size(); ++row) inclusive[got.modules[row].fqn] = got.inclusive_peaks[row];
  EXPECT_EQ(own, (std::map<std::string, uint64_t>{{"a", kMiB}, {"b", 6 * kMiB}}));
  EXPECT_EQ(inclusive["b"], 6 * kMiB);
  EXPECT_EQ(inclusive["a"], 6 * kMiB) << "of a 1 MiB had gone before the 4 came";
}

TEST(AttributeTest, AllocationsLieInTheStagesThatTheProgramNamed) {
  TrainingTrace trace;
  const uint32_t model = trace.Root("Net");
  trace.builder().Thread(100, "main");
  trace.builder().Thread(200, "autograd");
  const uint64_t forward = trace.Stack({Code("Net.forward", "/job/a.py"), Call(model)});
  const uint64_t backward = trace.Stack({Mark("MmBackward0"), Call(model)});
  const auto range = [&](trace::EventKind kind, const char* name, uint32_t thread) {
    EventRow row;
    row.kind = kind;
    row.thread = thread;
    row.text = *name == 0 ? 0 : trace.builder().String(name);
    trace.builder().Event(row);
  };
  trace.builder().CudaAlloc(kSegment, 64 * kMiB);
  range(trace::RANGE_PUSH, "train", 1);
  range(trace::RANGE_PUSH, "Forward", 1);
  trace.builder().OnThread(1).TorchAlloc(kSegment, kMiB, forward);
  range(trace::RANGE_POP, "", 1);
  trace.builder().OnThread(2).TorchAlloc(kSegment + kMiB, 2 * kMiB, backward);
  range(trace::RANGE_PUSH, "own", 2);
  trace.builder().OnThread(2).TorchAlloc(kSegment + 4 * kMiB, 4 * kMiB, 0);
  trace.builder().OnThread(1).TorchAlloc(kSegment + 8 * kMiB, 8 * kMiB, forward);
  range(trace::RANGE_POP, "", 1);
  trace.builder().OnThread(1).TorchAlloc(kSegment + 16 * kMiB, 16 * kMiB, forward).End();
  AttributionRequest request;
  request.moments = {Peak()};
  request.modules = true;
  const Attribution got = AttributeTrace(trace, request);
  std::map<std::string, uint64_t> bytes, of_modules;
  for (const AttributedUse& use : got.moments[0].uses)
    bytes[StagePath(got.user_stages.at(use.user_stage), use.stage)] += use.bytes;
  for (const ModuleUse& use : got.module_uses)
    of_modules[StagePath(got.user_stages.at(use.user_stage), use.stage)] += use.allocated_bytes;
  EXPECT_EQ(bytes, (std::map<std::string, uint64_t>{{"train > Forward", kMiB},
                                                    {"train > backward", 2 * kMiB},
                                                    {"own", 4 * kMiB},
                                                    {"train > forward", 8 * kMiB},
                                                    {"own > forward", 16 * kMiB}}));
  EXPECT_EQ(of_modules, bytes);
}

TEST(AttributeTest, ParametersHaveTheirGradientAndState) {
  Training training = WholeTraining();
  const Attribution got = AttributeTrace(training.trace, {});
  ASSERT_EQ(got.parameters.size(), 1u);
  EXPECT_EQ(got.parameters[0].bytes, 4 * kMiB);
  EXPECT_EQ(got.parameters[0].gradient_bytes, 4 * kMiB);
  EXPECT_EQ(got.parameters[0].state_bytes, 4 * kMiB);
  EXPECT_TRUE(got.has_tensors);
  EXPECT_EQ(got.unplaced, 0u);
}

TEST(AttributeTest, FindsStepsTimesAndMarks) {
  Training training;
  training.Start();
  training.Step(1);
  EventRow mark;
  mark.kind = trace::MARK;
  mark.text = training.trace.builder().String("half way");
  training.trace.builder().Event(mark);
  const uint64_t time = training.trace.builder().time_ns();
  training.Step(2);
  training.trace.builder().End();
  AttributionRequest request;
  request.moments = {{MomentQuery::Kind::kStep, 2, ""},
                     {MomentQuery::Kind::kTime, time, ""},
                     {MomentQuery::Kind::kMark, 0, "half way"},
                     {MomentQuery::Kind::kStep, 9, ""},
                     {MomentQuery::Kind::kMark, 0, "never"}};
  const Attribution got = AttributeTrace(training.trace, request);
  EXPECT_EQ(got.moments[0].values.allocated, 21 * kMiB);
  EXPECT_EQ(got.moments[1].values.allocated, 8 * kMiB);
  EXPECT_EQ(got.moments[2].values.allocated, 8 * kMiB);
  EXPECT_FALSE(got.moments[3].found);
  EXPECT_FALSE(got.moments[4].found);
}

EventRow MarkRow(TrainingTrace& trace, const std::string& text) {
  EventRow mark;
  mark.kind = trace::MARK;
  mark.text = trace.builder().String(text);
  return mark;
}

// As `gpumemshim.record()` sets it in a program that has not used its GPU yet.
TEST(AttributeTest, AMarkBeforeAllOtherEventsIsFound) {
  Training training;
  training.trace.builder().Event(MarkRow(training.trace, "record 1 begins (of=train)"));
  training.Start();
  training.Step(1);
  training.trace.builder().End();
  AttributionRequest request;
  request.moments = {{MomentQuery::Kind::kMark, 0, "record 1 begins"}};
  const Attribution got = AttributeTrace(training.trace, request);
  EXPECT_TRUE(got.moments[0].found);
  EXPECT_EQ(got.moments[0].values.allocated, 0u);
}

TEST(AttributeTest, AMarkIsFoundByItsTextBeforeItsBeginning) {
  Training training;
  training.Start();
  training.trace.builder().Event(MarkRow(training.trace, "done (loss=1)"));
  training.Step(1);
  training.trace.builder().Event(MarkRow(training.trace, "donated"));
  training.trace.builder().Event(MarkRow(training.trace, "half (way=1)")).Event(MarkRow(training.trace, "half"));
  const uint64_t second = training.trace.builder().time_ns();
  training.Step(2);
  training.trace.builder().Event(MarkRow(training.trace, "half"));
  training.trace.builder().Event(MarkRow(training.trace, "done (loss=2)")).End();
  AttributionRequest request;
  request.moments = {{MomentQuery::Kind::kMark, 0, "done"},
                     {MomentQuery::Kind::kMark, 0, "half"},
                     {MomentQuery::Kind::kMark, training.trace.builder().time_ns(), "done (loss=2)"},
                     {MomentQuery::Kind::kMark, 0, "don"}};
  const Attribution got = AttributeTrace(training.trace, request);
  EXPECT_EQ(got.moments[0].values.allocated, 4 * kMiB) << "the first that begins with it";
  EXPECT_EQ(got.moments[1].time_ns, second) << "the first of the whole text, although another begins with it";
  EXPECT_EQ(got.moments[2].values.allocated, 8 * kMiB);
  EXPECT_EQ(got.moments[2].asked, "done (loss=2)");
  EXPECT_FALSE(got.moments[3].found);
}

TEST(AttributeTest, MemoryHasTheNameThatTheProgramGaveIt) {
  TrainingTrace trace;
  const uint32_t first = trace.builder().String("first"), cache = trace.builder().String("cache");
  trace.builder().CudaAlloc(kSegment, 20 * kMiB).CudaAlloc(2 * kSegment, 3 * kMiB).TorchAlloc(kSegment, kMiB);
  trace.Named(kSegment, first).Named(kSegment + 512, cache).Named(2 * kSegment + 4, cache).Named(5, cache);
  trace.builder().TorchAlloc(kSegment + kMiB, 2 * kMiB).End();
  AttributionRequest request;
  request.moments = {Peak()};
  const Attribution got = AttributeTrace(trace, request);
  std::map<std::string, uint64_t> bytes;
  for (const AttributedUse& use : got.moments[0].uses) bytes[use.name == 0 ? "" : got.names.at(use.name)] += use.bytes;
  EXPECT_EQ(bytes, (std::map<std::string, uint64_t>{{"", 2 * kMiB}, {"cache", 4 * kMiB}}));
  EXPECT_EQ(got.unplaced, 1u);
  EXPECT_FALSE(got.has_tensors) << "a name says nothing of what memory is for";
}

TEST(AttributeTest, AnUnfinishedStepThatTrainsIsOne) {
  Training training;
  training.Start();
  training.Step(1);
  training.trace.builder().TorchAlloc(Training::kActivation, 8 * kMiB, 0);
  training.trace.Saved(Training::kActivation);
  training.trace.builder().FlushBatch();
  AttributionRequest request;
  request.steps = true;
  const Attribution got = AttributeTrace(training.trace, request);
  ASSERT_EQ(got.steps.size(), 2u);
  EXPECT_FALSE(got.steps[1].step.complete);
  EXPECT_EQ(got.steps[1].at_end[Index(Category::kActivation)], 8 * kMiB);
}

TEST(AttributeTest, RecomputedForwardIsBackward) {
  TrainingTrace trace;
  const uint32_t model = trace.Root("Net"), block = trace.Module(model, "block", "Block");
  const uint64_t again = trace.Stack({Call(block), Mark("CheckpointFunctionBackward"), Call(block), Call(model)});
  trace.builder().CudaAlloc(kSegment, 20 * kMiB).TorchAlloc(kSegment, kMiB, again).End();
  AttributionRequest request;
  request.moments = {Peak()};
  request.modules = true;
  const Attribution got = AttributeTrace(trace, request);
  ASSERT_EQ(got.moments[0].uses.size(), 1u);
  EXPECT_EQ(got.moments[0].uses[0].stage, Stage::kBackward);
  EXPECT_TRUE(got.moments[0].uses[0].recomputed);
  EXPECT_EQ(got.module_uses[0].recomputed_bytes, kMiB);
}

TEST(AttributeTest, MemoryBesidesPyTorchIsTheLibrarys) {
  TrainingTrace trace;
  trace.builder().CudaAlloc(kSegment, 3 * kMiB).CudaAlloc(2 * kSegment, 20 * kMiB).TorchAlloc(2 * kSegment, kMiB).End();
  AttributionRequest request;
  request.moments = {Peak()};
  const Attribution got = AttributeTrace(trace, request);
  EXPECT_EQ(got.moments[0].categories[Index(Category::kLibrary)], 3 * kMiB);
  EXPECT_EQ(got.moments[0].categories[Index(Category::kUnknown)], kMiB);
  EXPECT_EQ(got.moments[0].Total(), 23 * kMiB);
}

TEST(AttributeTest, AStrayTensorIsCounted) {
  Training training;
  training.Start();
  training.trace.Saved(0x1000);
  training.trace.builder().End();
  EXPECT_EQ(AttributeTrace(training.trace, {}).unplaced, 1u);
}

}  // namespace
}  // namespace gpumem
