// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/stage_log.h"

#include <gtest/gtest.h>

#include <string>

#include "gpumem/trace.pb.h"
#include "trace/event_batch.h"

namespace gpumem {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

// Events a second apart, each a batch of its own.
class StageLogTest : public ::testing::Test {
 protected:
  StageLogTest() {
    trace::Definitions definitions;
    for (const char* name : {"train", "epoch", "whole", "CCCL:cub::DeviceRadixSort"}) {
      trace::InternedString* const string = definitions.add_strings();
      string->set_id(static_cast<uint32_t>(definitions.strings_size()));
      string->set_value(name);
    }
    EXPECT_TRUE(stacks_.Add(definitions.SerializeAsString()).ok());
  }

  // `before`: allocated bytes before it.
  void Event(trace::EventKind kind, uint64_t before, const StackClassification* classification = nullptr,
             const std::string& user = "", uint32_t text = 0, uint32_t thread = 1, uint64_t handle = 0) {
    trace::EventBatch message;
    message.set_count(1);
    message.set_first_time_ns((1 + index_) * kSecond);
    message.add_kind(kind);
    message.add_text(text);
    message.add_thread(thread);
    message.add_handle(handle);
    EventBatch batch;
    ASSERT_TRUE(batch.Decode(message.SerializeAsString()).ok());
    MeasureValues values;
    values.allocated = before;
    log_.Before(index_++, batch, 0, values, classification, user);
  }
  void Alloc(Stage stage, uint64_t before, const std::string& user = "", bool is_weak = false) {
    StackClassification classification;
    classification.stage = stage;
    classification.is_weak = is_weak;
    Event(trace::ALLOC, before, &classification, user);
  }
  void Finish(uint64_t allocated) {
    MeasureValues values;
    values.allocated = allocated;
    log_.Finish(index_, values);
  }
  const StageRow& Row(RunPart part, const std::string& user = "") const {
    static const StageRow kNone;
    for (const StageRow& row : log_.rows()) {
      if (!row.is_named && row.part == part && row.user == user) return row;
    }
    ADD_FAILURE() << "no row of " << RunPartName(part);
    return kNone;
  }
  const StageRow& Named(const std::string& user) const {
    static const StageRow kNone;
    for (const StageRow& row : log_.rows()) {
      if (row.is_named && row.user == user) return row;
    }
    ADD_FAILURE() << "no row named " << user;
    return kNone;
  }

  StackTable stacks_;
  StageLog log_{Measure::kAllocated, &stacks_};
  uint64_t index_ = 0;
};

TEST_F(StageLogTest, APartLastsUntilTheNextOneAllocates) {
  Alloc(Stage::kConstruction, 0);
  Event(trace::FREE, 10);
  Alloc(Stage::kOptimizerSetup, 4);
  Alloc(Stage::kForward, 6);
  Event(trace::FREE, 20);
  Alloc(Stage::kEvaluation, 7);
  Event(trace::FREE, 30);
  Alloc(Stage::kBackward, 7);
  Finish(9);
  const StageRow& load = Row(RunPart::kModelLoad);
  EXPECT_EQ(load.start.values.allocated, 0u);
  EXPECT_EQ(load.peak.values.allocated, 10u);
  EXPECT_EQ(load.end.values.allocated, 4u);
  EXPECT_EQ(load.growth_bytes, 4);
  EXPECT_EQ(load.time_ns, 2 * kSecond);
  EXPECT_TRUE(load.complete);
  EXPECT_EQ(Row(RunPart::kOptimizerSetup).growth_bytes, 2);
  const StageRow& training = Row(RunPart::kTraining);
  EXPECT_EQ(training.count, 2u) << "before the evaluation and behind it";
  EXPECT_EQ(training.peak.values.allocated, 20u) << "and not that of the evaluation in between";
  EXPECT_EQ(training.growth_bytes, 1 + 2);
  EXPECT_EQ(training.time_ns, 2 * kSecond);
  EXPECT_EQ(training.end.values.allocated, 9u);
  EXPECT_FALSE(training.complete);
  EXPECT_EQ(Row(RunPart::kEvaluation).peak.values.allocated, 30u);
  EXPECT_EQ(log_.rows().size(), 4u);
}

TEST_F(StageLogTest, WhatALoopDoesOnTheWayIsTheLoops) {
  Alloc(Stage::kData, 0);
  Alloc(Stage::kForward, 1);
  Alloc(Stage::kData, 2);
  Alloc(Stage::kNone, 3);
  Alloc(Stage::kConstruction, 4, "", true);
  Alloc(Stage::kWrapping, 5);
  Event(trace::OPTIMIZER_STEP, 6);
  Finish(6);
  EXPECT_EQ(log_.rows().size(), 2u);
  EXPECT_EQ(Row(RunPart::kData).count, 1u);
  EXPECT_EQ(Row(RunPart::kTraining).count, 1u);
}

TEST_F(StageLogTest, AnEvaluationEndsWithItsLastMemoryEvent) {
  Alloc(Stage::kForward, 0);                    // at 1 s
  Alloc(Stage::kEvaluation, 1);                 // at 2 s
  Event(trace::FREE, 30);                       // at 3 s: the last one
  Event(trace::MARK, 5, nullptr, "", 1);        // "saving"
  Event(trace::RANGE_PUSH, 5, nullptr, "", 2);  // the next epoch
  Alloc(Stage::kData, 5, "epoch");              // at 6 s: batches of training again
  Finish(9);
  const StageRow& evaluation = Row(RunPart::kEvaluation);
  EXPECT_EQ(evaluation.time_ns, 1 * kSecond);
  EXPECT_EQ(evaluation.end.values.allocated, 5u);
  EXPECT_EQ(evaluation.peak.values.allocated, 30u);
  EXPECT_EQ(Row(RunPart::kInference, "epoch").growth_bytes, 4);
  EXPECT_EQ(log_.rows().size(), 4u) << "with the named epoch";
}

TEST_F(StageLogTest, RangesOfLibrariesAreNoStages) {
  Event(trace::RANGE_PUSH, 1, nullptr, "", 1);
  Event(trace::RANGE_PUSH, 1, nullptr, "", 4);
  Event(trace::RANGE_PUSH, 1, nullptr, "", 2);
  Event(trace::RANGE_POP, 1);
  Event(trace::RANGE_POP, 2);
  Event(trace::RANGE_START, 2, nullptr, "", 4, 1, 5);
  Event(trace::RANGE_END, 2, nullptr, "", 0, 1, 5);
  Event(trace::RANGE_POP, 3);
  Finish(3);
  EXPECT_EQ(log_.rows().size(), 2u);
  EXPECT_EQ(Named("train > epoch").count, 1u);
  EXPECT_EQ(Named("train").end.values.allocated, 3u);
}

TEST_F(StageLogTest, AStageThatAllocatesNothingHasARow) {
  Event(trace::RANGE_PUSH, 7, nullptr, "", 1);
  Event(trace::RANGE_POP, 7);
  Finish(7);
  EXPECT_EQ(Named("train").peak.values.allocated, 7u);
  EXPECT_EQ(Named("train").growth_bytes, 0);
}

TEST_F(StageLogTest, ARunWithoutBackwardOrStepsInfers) {
  Alloc(Stage::kForward, 0);
  Finish(1);
  EXPECT_EQ(Row(RunPart::kInference).count, 1u);
}

TEST_F(StageLogTest, NamedStagesHaveAllInside) {
  Event(trace::RANGE_START, 0, nullptr, "", 3, 1, 77);
  Event(trace::RANGE_PUSH, 1, nullptr, "", 1);
  Event(trace::RANGE_PUSH, 2, nullptr, "", 2);
  Event(trace::RANGE_PUSH, 3, nullptr, "", 2, /*thread=*/9);
  Alloc(Stage::kForward, 3, "train > epoch");
  Event(trace::FREE, 50);
  Event(trace::RANGE_POP, 5);
  Event(trace::RANGE_POP, 6, nullptr, "", 0, 9);
  Event(trace::RANGE_POP, 6, nullptr, "", 0, 9);  // one too many
  Event(trace::RANGE_PUSH, 60, nullptr, "", 2);
  Event(trace::RANGE_POP, 8);
  Event(trace::RANGE_END, 9, nullptr, "", 0, 1, 77);
  Finish(10);
  const StageRow& epoch = Named("train > epoch");
  EXPECT_EQ(epoch.count, 2u);
  EXPECT_EQ(epoch.start.values.allocated, 2u);
  EXPECT_EQ(epoch.peak.values.allocated, 60u);
  EXPECT_EQ(epoch.end.values.allocated, 8u);
  EXPECT_EQ(epoch.growth_bytes, 3 - 52);
  EXPECT_EQ(Named("epoch").peak.values.allocated, 50u) << "of the other thread";
  EXPECT_EQ(Named("whole").end.values.allocated, 9u);
  EXPECT_TRUE(Named("whole").complete);
  EXPECT_FALSE(Named("train").complete);
  EXPECT_EQ(Named("train").end.values.allocated, 10u);
  EXPECT_EQ(Row(RunPart::kInference, "train > epoch").count, 1u) << "a part is one inside the named stage";
}

TEST_F(StageLogTest, HostileNestingIsBounded) {
  for (int i = 0; i < 5000; ++i) Event(trace::RANGE_PUSH, 1, nullptr, "", 1);
  for (int i = 0; i < 5000; ++i) Event(trace::RANGE_POP, 1);
  for (uint32_t i = 0; i < 5000; ++i) Event(trace::RANGE_PUSH, 1, nullptr, "", 1, i + 1);
  for (uint32_t i = 0; i < 200; ++i) Event(trace::RANGE_START, 1, nullptr, "", 1, 1, i + 1);
  for (int i = 0; i < 5000; ++i) Alloc(Stage::kForward, 1, std::to_string(i));
  Finish(1);
  EXPECT_LE(log_.rows().size(), StageLog::kMaxRows);
  EXPECT_GT(log_.unlisted(), 5000u);
}

}  // namespace
}  // namespace gpumem
