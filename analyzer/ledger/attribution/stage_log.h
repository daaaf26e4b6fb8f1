// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// StageLog: the run as a sequence of stages, with what memory did in each. Two sorts of rows:
//
//   derived   which part of the run it is (model load, data preparation, wrapping, ..., training, evaluation), by the
//             stacks of the allocations: a part lasts from its first allocation to the first of another part, and an
//             allocation whose stack does not say belongs to the part under way. An evaluation ends with the last
//             memory event before an allocation outside of it. Inside the stages that the program named.
//   named     each stage that the program named (docs/marks.md), from where it begins to where it ends, with everything
//   in it
//
//      model load | optimizer set-up | training ............ | evaluation .. | training ........ |   derived
//                                    [ epoch .............................. ][ epoch ........... ]   named
//
// A row adds up all its stretches. Bounded: beyond kMaxRows rows there are no new ones, which is counted. Not
// thread-safe.
//
//   log.Before(index, batch, i, values, classification, user_stage);   // every event, with the totals before it
//   log.Finish(index, values);
//   for (const StageRow& row : log.rows()) ...

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_STAGE_LOG_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_STAGE_LOG_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/string_view.h"
#include "ledger/attribution/stack_classification.h"
#include "ledger/attribution/step_log.h"
#include "replay/analysis.h"
#include "trace/mark_ranges.h"
#include "trace/stack_table.h"

namespace gpumem {

class EventBatch;

// Of the run; finer are the stages of stage.h.
enum class RunPart : uint8_t {
  kOther,  // before anything tells
  kModelLoad,
  kData,
  kWrapping,
  kOptimizerSetup,
  kPrivacySetup,
  kTraining,
  kInference,  // forward passes of a run that never trains
  kEvaluation,
  kCheckpointLoad,
  kCheckpointSave,
  kLoraSetup,
};

absl::string_view RunPartName(RunPart part);   // "model_load"
absl::string_view RunPartTitle(RunPart part);  // "model load"

// The part to which an allocation belongs, where `current` is under way.
RunPart PartOf(const StackClassification& classification, RunPart current);

struct StageRow {
  bool is_named = false;
  RunPart part = RunPart::kOther;  // where derived
  std::string user;                // the named stage itself, or the stages around a derived one: "train > epoch"
  uint64_t count = 0;              // stretches
  uint64_t time_ns = 0;            // of all of them
  int64_t growth_bytes = 0;        // of the measure
  StepPoint start, peak, end;      // of the first stretch; of the highest moment; of the last stretch
  bool complete = true;            // false: the trace ends in it
};

class StageLog {
 public:
  static constexpr size_t kMaxRows = 2000;

  // `measure`: what peak and growth are of.
  StageLog(Measure measure, const StackTable* stacks) : measure_(measure), stacks_(stacks) {}

  // `classification`: of the event's stack, where it allocates and has one, else null. `user`: the stages that the
  // program named and that were open for it.
  void Before(uint64_t index, const EventBatch& batch, size_t i, const MeasureValues& values,
              const StackClassification* classification, const std::string& user);
  void Finish(uint64_t index, const MeasureValues& values);

  // In the order in which they first began; derived ones and named ones among each other.
  const std::vector<StageRow>& rows() const { return rows_; }
  uint64_t unlisted() const { return unlisted_; }  // stretches that found no room

 private:
  static constexpr size_t kNone = SIZE_MAX;

  // A stretch that is under way.
  struct Open {
    size_t row = kNone;
    StepPoint start, peak;
    std::string path;  // of a named one
  };

  uint64_t Of(const MeasureValues& values) const;
  Open Begin(bool is_named, RunPart part, const std::string& user, const StepPoint& at);
  void Close(const Open& open, const StepPoint& at, bool complete);
  void Raise(const StepPoint& at, Open* open) const;
  void CloseDerived(const StepPoint& at, bool complete);
  RunPart PartBefore(const EventBatch& batch, size_t i, const StackClassification& classification);
  void Enter(RunPart part, const std::string& user, const StepPoint& at);
  void Push(uint32_t tid, const std::string& text, const StepPoint& at);
  void Mark(const EventBatch& batch, size_t i, const StepPoint& at);

  Measure measure_;
  const StackTable* stacks_;
  std::vector<StageRow> rows_;
  std::map<std::tuple<bool, RunPart, std::string>, size_t> places_;
  RunPart part_ = RunPart::kOther;
  std::string user_;  // around it
  Open derived_;
  bool is_entered_ = false;                      // it counts
  RunPart before_evaluation_ = RunPart::kOther;  // the part that the last evaluation came after
  uint32_t evaluation_thread_ = 0;
  StepPoint evaluation_end_;       // the state after its last memory event
  bool moves_evaluation_ = false;  // the event before was one
  LibraryRanges library_ranges_;
  std::map<uint32_t, std::vector<Open>> pushed_;  // by the kernel's id of the thread, outermost first
  std::map<uint64_t, Open> ranges_;               // of the process, by number
  bool trains_ = false;
  uint64_t last_ns_ = 0;
  uint64_t unlisted_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_STAGE_LOG_H_
