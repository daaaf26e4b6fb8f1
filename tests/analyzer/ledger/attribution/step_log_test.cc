// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/step_log.h"

#include <gtest/gtest.h>

#include <string>

#include "gpumem/trace.pb.h"
#include "trace/event_batch.h"

namespace gpumem {
namespace {

// Events of one thread, each a batch of its own.
class StepLogTest : public ::testing::Test {
 protected:
  void Event(trace::EventKind kind, uint64_t handle, uint64_t size, uint64_t allocated,
             StepPass pass = StepPass::kNone) {
    trace::EventBatch message;
    message.set_count(1);
    message.set_first_time_ns(1000 + index_);
    message.add_kind(kind);
    message.add_handle(handle);
    message.add_size(size);
    EventBatch batch;
    ASSERT_TRUE(batch.Decode(message.SerializeAsString()).ok());
    MeasureValues values;
    values.allocated = allocated;
    log_.Before(index_++, batch, 0, values, pass);
  }
  void Finish(uint64_t allocated) {
    MeasureValues values;
    values.allocated = allocated;
    log_.Finish(index_, values);
  }
  void Steps(uint64_t optimizer) {
    Event(trace::OPTIMIZER_STEP, optimizer, 0, 0);
    Event(trace::OPTIMIZER_STEP, optimizer, 1, 0);
  }

  StepLog log_{Measure::kAllocated};
  uint64_t index_ = 0;
};

TEST_F(StepLogTest, TheFirstOptimizerCounts) {
  Event(trace::ALLOC, 0, 1, 0, StepPass::kForward);
  for (int i = 0; i < 3; ++i) {
    Steps(7);
    Steps(8);
  }
  Finish(0);
  EXPECT_EQ(log_.steps().size(), 3u);
  EXPECT_EQ(log_.source(), StepSource::kOptimizer);
}

TEST_F(StepLogTest, ATrainersCountsAreTheSteps) {
  for (uint64_t step = 1; step <= 2; ++step) {
    Event(trace::OPTIMIZER_STEP, 7 | (step + 40) << 32, 0, 0);
    Event(trace::OPTIMIZER_STEP, 7 | uint64_t{3} << 32, 1, 0);
  }
  ASSERT_EQ(log_.steps().size(), 2u);
  EXPECT_EQ(log_.steps()[0].trainer_step, 41u) << "begun by the optimizer: its forward pass runs in its closure";
  EXPECT_EQ(log_.steps()[1].trainer_step, 42u);
  EXPECT_EQ(log_.steps()[1].epoch, 3u);
}

TEST_F(StepLogTest, BackwardPassesAreCounted) {
  for (int part = 0; part < 3; ++part) {
    Event(trace::ALLOC, 0, 1, 0, StepPass::kForward);
    for (int i = 0; i < 2; ++i) Event(trace::ALLOC, 0, 1, 0, StepPass::kBackward);
  }
  Steps(7);
  Event(trace::ALLOC, 0, 1, 0, StepPass::kBackward);
  Steps(7);
  ASSERT_EQ(log_.steps().size(), 2u);
  EXPECT_EQ(log_.steps()[0].backward_passes, 3u);
  EXPECT_EQ(log_.steps()[1].backward_passes, 1u) << "its forward pass was the last of the step before";
}

TEST_F(StepLogTest, GradientsMayAccumulateOverManyBackwardPasses) {
  for (int step = 0; step < 2; ++step) {
    for (int part = 0; part < 4; ++part) Event(trace::ALLOC, 0, 1, 10, StepPass::kForward);
    Steps(7);
  }
  Finish(0);
  ASSERT_EQ(log_.steps().size(), 2u);
  EXPECT_EQ(log_.steps()[1].peak.values.allocated, 10u);
}

TEST_F(StepLogTest, TheProgramsOwnStepsWin) {
  Event(trace::ALLOC, 0, 1, 0, StepPass::kForward);
  Steps(7);
  Event(trace::STEP, 5, 0, 3);
  Event(trace::ALLOC, 0, 1, 4);
  Steps(7);
  Event(trace::STEP, 6, 0, 9);
  Finish(2);
  ASSERT_EQ(log_.steps().size(), 2u);
  EXPECT_EQ(log_.source(), StepSource::kUser);
  EXPECT_EQ(log_.steps()[0].number, 5u);
  EXPECT_EQ(log_.steps()[0].start.values.allocated, 3u);
  EXPECT_EQ(log_.steps()[0].peak.values.allocated, 9u);
  EXPECT_FALSE(log_.steps()[1].complete);
  EXPECT_EQ(log_.Numbered(6)->end.values.allocated, 2u);
  EXPECT_EQ(log_.Numbered(1), nullptr);
}

TEST_F(StepLogTest, WhatFollowsTheLastStepIsOneWhereItTrains) {
  Event(trace::ALLOC, 0, 1, 0, StepPass::kForward);
  Steps(7);
  Event(trace::ALLOC, 0, 1, 0);
  Finish(0);
  EXPECT_EQ(log_.steps().size(), 1u) << "an evaluation";
}

TEST_F(StepLogTest, AnEvaluationBetweenStepsBelongsToNone) {
  Event(trace::ALLOC, 0, 1, 100, StepPass::kForward);
  Steps(7);
  Event(trace::ALLOC, 0, 1, 900, StepPass::kEvaluation);
  Event(trace::FREE, 0, 1, 1000);
  Event(trace::ALLOC, 0, 1, 100, StepPass::kForward);
  const uint64_t second = index_ - 2;
  Event(trace::ALLOC, 0, 1, 300, StepPass::kBackward);
  Steps(7);
  Event(trace::ALLOC, 0, 1, 900, StepPass::kEvaluation);
  Finish(900);
  ASSERT_EQ(log_.steps().size(), 2u);
  EXPECT_EQ(log_.steps()[1].start.event_index, second);
  EXPECT_EQ(log_.steps()[1].start.values.allocated, 100u);
  EXPECT_EQ(log_.steps()[1].peak.values.allocated, 300u);
}

TEST_F(StepLogTest, AnEvaluationInsideAStepIsPartOfIt) {
  Event(trace::ALLOC, 0, 1, 100, StepPass::kForward);
  Steps(7);
  Event(trace::ALLOC, 0, 1, 100, StepPass::kForward);
  Event(trace::ALLOC, 0, 1, 900, StepPass::kEvaluation);
  Event(trace::ALLOC, 0, 1, 300, StepPass::kBackward);
  Steps(7);
  ASSERT_EQ(log_.steps().size(), 2u);
  EXPECT_EQ(log_.steps()[1].peak.values.allocated, 900u);
}

TEST_F(StepLogTest, WithoutAnOptimizerThereAreNone) {
  Event(trace::ALLOC, 0, 1, 0, StepPass::kForward);
  Event(trace::SAVED, 0, 0, 0);
  Finish(0);
  EXPECT_TRUE(log_.steps().empty());
  EXPECT_EQ(log_.source(), StepSource::kNone);
}

TEST_F(StepLogTest, AnEventLiesInItsStep) {
  Event(trace::ALLOC, 0, 1, 0);
  Event(trace::ALLOC, 0, 1, 0, StepPass::kForward);
  Steps(7);
  Steps(7);
  Finish(0);
  EXPECT_EQ(log_.At(2)->number, 1u);
  EXPECT_EQ(log_.At(4)->number, 2u);
  EXPECT_EQ(log_.At(99), nullptr);
}

}  // namespace
}  // namespace gpumem
