// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/peak_without.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "answers/report/remedies.h"
#include "ledger/load/load_trace.h"
#include "testing/sizes.h"
#include "testing/training_trace.h"

namespace gpumem {
namespace {

using testing::Call;
using testing::Code;
using testing::kMiB;
using testing::kSegment;
using testing::Mark;
using testing::TrainingTrace;

// Rounds of a forward pass of 8 MiB, a backward pass of 2 MiB and a step, with what a test adds in them.
class Training {
 public:
  Training() {
    model_ = trace.Root("Net");
    weight_ = trace.Parameter(model_, "weight", kMiB);
    gradient_ = trace.Tensor(trace::GRADIENT, "", weight_);
    optimizer = trace.Optimizer("SGD");
    forward =
        trace.Stack({Code("Net.forward", "/job/model.py", 7), Call(model_), Code("<module>", "/job/train.py", 3)});
    output = trace.Stack({Code("<module>", "/job/train.py", 4)});
    backward_ = trace.Stack({Mark("MmBackward0"), Code("Net.forward", "/job/model.py", 7), Call(model_),
                             Code("<module>", "/job/train.py", 3)});
    trace.builder().CudaAlloc(kSegment, 512 * kMiB);
    trace.builder().TorchAlloc(At(0), 4 * kMiB, trace.Stack({Code("<module>", "/job/train.py", 1)}));
    trace.Place(weight_, At(0), 4 * kMiB);
  }

  static uint64_t At(uint64_t mib) { return kSegment + mib * kMiB; }
  void Allocate(uint64_t mib, uint64_t size, uint64_t stack) {
    trace.builder().TorchAlloc(At(mib), size * kMiB, stack);
  }
  void Free(uint64_t mib, uint64_t size) { trace.builder().TorchFree(At(mib), size * kMiB); }
  void Forward() { Allocate(8, 8, forward); }
  void Backward() {
    Allocate(20, 2, backward_);
    Free(20, 2);
    Free(8, 8);
  }
  void Step(uint32_t which) { trace.StepBegins(which).StepEnds(which); }
  void MakeGradient() {
    Allocate(24, 4, backward_);
    trace.Place(gradient_, At(24), 4 * kMiB);
  }

  // What of the peak would be left, in MiB, beside the peak itself.
  std::pair<uint64_t, uint64_t> Without(PeakPart part) {
    trace.builder().End();
    LoadRequest request;
    request.place = trace.builder().WriteTemporary();
    const auto loaded = LoadTrace(request);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    const DeviceAnalysis& device = (*loaded)->analysis.devices.at(0);
    const auto without = PeakWithout::Count(loaded->get(), &device);
    EXPECT_TRUE(without.ok()) << without.status();
    return {(*without)->Of(part).value_or(0) / kMiB, device.peak_allocated.bytes / kMiB};
  }

  TrainingTrace trace;
  uint32_t optimizer = 0;
  uint64_t forward = 0, output = 0;

 private:
  uint32_t model_ = 0, weight_ = 0, gradient_ = 0;
  uint64_t backward_ = 0;
};

using Peaks = std::pair<uint64_t, uint64_t>;

// A gradient that the next forward pass finds.
void TrainWithLateGradients(Training* training, const std::vector<uint32_t>& optimizers) {
  for (int i = 0; i < 6; ++i) {
    training->Forward();
    if (i > 0) training->Free(24, 4);
    training->Backward();
    training->MakeGradient();
    for (const uint32_t optimizer : optimizers) training->Step(optimizer);
  }
}

TEST(PeakWithout, GradientsAreNotNeededFromTheStepToTheBackwardPass) {
  Training training;
  TrainWithLateGradients(&training, {training.optimizer});
  EXPECT_EQ(training.Without(PeakPart::kGradients), (Peaks{14, 16})) << "the backward pass is the next highest";
}

TEST(PeakWithout, AnotherOptimizersStepMayNeedTheGradients) {
  Training training;
  const uint32_t other = training.trace.Optimizer("Adam");
  TrainWithLateGradients(&training, {training.optimizer, other});
  EXPECT_EQ(training.Without(PeakPart::kGradients), (Peaks{16, 16}));
}

TEST(PeakWithout, WhatARoundComputedIsNotNeededInTheNextOne) {
  Training training;
  for (uint64_t i = 0; i < 6; ++i) {
    training.Forward();
    training.Allocate(40 + 16 * (i % 2), 16, training.output);
    if (i > 0) training.Free(40 + 16 * ((i + 1) % 2), 16);
    training.Backward();
    training.Step(training.optimizer);
  }
  EXPECT_EQ(training.Without(PeakPart::kCarried), (Peaks{30, 44}));
}

// Twelve rounds, each of which keeps something; `lets_go`: of all of it, before two more rounds.
Peaks KeepOutputs(bool lets_go) {
  Training training;
  for (uint64_t i = 0; i < 14; ++i) {
    if (lets_go && i == 12)
      for (uint64_t k = 0; k < 12; ++k) training.Free(40 + 2 * k, 2);
    training.Forward();
    if (i < 12) training.Allocate(40 + 2 * i, 2, training.output);
    training.Backward();
    training.Step(training.optimizer);
  }
  return training.Without(PeakPart::kKeptLong);
}

TEST(PeakWithout, TheOutputsOfAnEpoch) { EXPECT_EQ(KeepOutputs(true), (Peaks{16, 38})) << "each in its own round"; }

TEST(PeakWithout, WhatStaysToTheEndIsNotKeptForAnEpoch) { EXPECT_EQ(KeepOutputs(false), (Peaks{38, 38})); }

TEST(PeakWithout, ARunningAverageIsNotCarriedOver) {
  Training training;
  training.Allocate(100, 16, training.output);
  for (uint64_t i = 0; i < 6; ++i) {
    training.Forward();
    training.Backward();
    training.Step(training.optimizer);
  }
  const auto [left, peak] = training.Without(PeakPart::kCarried);
  EXPECT_EQ(left, peak);
}

TEST(PeakWithout, ABatchThatComesBetweenRoundsIsTheNextOnes) {
  Training training;
  const uint64_t batch = training.output;
  training.Allocate(40, 16, batch);
  for (uint64_t i = 0; i < 6; ++i) {
    training.Forward();
    training.Backward();
    training.Step(training.optimizer);
    training.Allocate(40 + 16 * ((i + 1) % 2), 16, batch);
    training.Free(40 + 16 * (i % 2), 16);
  }
  const auto [left, peak] = training.Without(PeakPart::kCarried);
  EXPECT_EQ(left, peak);
}

TEST(PeakWithout, WithoutRoundsNothingLivesTooLong) {
  Training training;
  for (uint64_t i = 0; i < 6; ++i) {
    training.Allocate(40, 16, training.output);
    training.Free(40, 16);
  }
  for (const PeakPart part : {PeakPart::kGradients, PeakPart::kCarried, PeakPart::kLoaded, PeakPart::kForeach}) {
    const auto [left, peak] = training.Without(part);
    EXPECT_EQ(left, peak) << PeakPartName(part);
  }
}

}  // namespace
}  // namespace gpumem
