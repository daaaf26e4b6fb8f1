// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// StepLog: the steps of a training and what memory did in each. Where the program says where its steps begin
// (docs/marks.md) that holds; else a step ends when the step of an optimizer does (step_ends.h: of which), and the
// first one begins with the first forward pass. What follows the last step is one of its own, not complete, where it
// trains: autograd keeps tensors, or a request fails in it.
//
//      setup | forward backward optimizer | forward backward optimizer | forward ...
//            ^ 1                          ^ 2                          ^ 3, not complete
//
// An evaluation that runs between two such steps belongs to neither: the later one begins with the first training
// allocation after it. Its stacks say so (stage.h).
//
// Not thread-safe.
//
//   log.Before(index, batch, i, values, pass);  // every event, with the totals before it; once more at the end
//   for (const Step& step : log.steps()) ...

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_STEP_LOG_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_STEP_LOG_H_

#include <cstdint>
#include <vector>

#include "replay/analysis.h"

namespace gpumem {

class EventBatch;

// A state of memory: the one after event `event_index`.
struct StepPoint {
  uint64_t event_index = 0, time_ns = 0;
  MeasureValues values;
};

struct Step {
  uint64_t number = 0;
  bool complete = true;
  uint64_t backward_passes = 0;  // runs of backward allocations between forward ones; where the caller tells them
  uint64_t trainer_step = 0, epoch = 0;  // as a trainer counts them, from 1; 0 = none does
  StepPoint start, peak, end;

  // Allocated at its end beyond what was at its start; below zero where it shrank.
  int64_t GrowthBytes() const {
    return static_cast<int64_t>(end.values.allocated) - static_cast<int64_t>(start.values.allocated);
  }
};

// Of steps in order: the one in which an event lies, nullptr outside of all; the last one with a number.
const Step* StepAt(const std::vector<Step>& steps, uint64_t event_index);
const Step* StepNumbered(const std::vector<Step>& steps, uint64_t number);

enum class StepSource : uint8_t { kNone, kOptimizer, kUser };

// What an allocation is part of, as its stack says.
enum class StepPass : uint8_t { kNone, kForward, kBackward, kEvaluation };

class StepLog {
 public:
  // `measure`: what the peak of a step is the peak of.
  explicit StepLog(Measure measure) : measure_(measure) {}

  // `values` are those before the event takes effect. `pass`: what it allocates in.
  void Before(uint64_t index, const EventBatch& batch, size_t i, const MeasureValues& values, StepPass pass);
  void Finish(uint64_t index, const MeasureValues& values);

  // Ends of steps of any optimizer, or of the program's own, so far.
  size_t ends() const { return steps_.size(); }
  // Whether `pass` matters for the next event.
  bool waits() const { return !is_open_ && source_ == StepSource::kNone; }

  // The rest is known behind Finish().
  const std::vector<Step>& steps() const { return steps_; }
  StepSource source() const { return source_; }
  uint64_t unlisted() const { return dropped_; }  // steps beyond kMaxSteps
  const Step* At(uint64_t event_index) const { return StepAt(steps_, event_index); }
  const Step* Numbered(uint64_t number) const { return StepNumbered(steps_, number); }

  static constexpr size_t kMaxSteps = 1'000'000;

 private:
  uint64_t Of(const MeasureValues& values) const;
  void Begin(uint64_t number, const StepPoint& at);
  void Close(const StepPoint& at, bool complete);
  void ForgetDerived();
  void Train(uint32_t kind, StepPass pass, const StepPoint& before);
  void Join();
  void Absorb(const Step& later, Step* step) const;

  Measure measure_;
  std::vector<Step> steps_;           // until they are joined: a piece for each of `optimizers_`
  std::vector<uint32_t> optimizers_;  // whose step ended each
  StepSource source_ = StepSource::kNone;
  Step open_;
  bool is_open_ = false;
  bool trains_ = false;       // in the open step, or piece
  bool is_backward_ = false;  // the last pass in it
  bool has_begun_ = false;    // a forward or backward pass ran in it
  bool evaluates_ = false;    // an evaluation ran in it, and no such pass since
  uint64_t last_ns_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_STEP_LOG_H_
