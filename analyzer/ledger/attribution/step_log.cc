// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/step_log.h"

#include <algorithm>
#include <utility>

#include "gpumem/trace.pb.h"
#include "ledger/attribution/step_ends.h"
#include "trace/event_batch.h"

namespace gpumem {

const Step* StepAt(const std::vector<Step>& steps, uint64_t event_index) {
  const auto step = std::lower_bound(steps.begin(), steps.end(), event_index,
                                     [](const Step& each, uint64_t index) { return each.end.event_index < index; });
  return step != steps.end() && step->start.event_index <= event_index ? &*step : nullptr;
}

const Step* StepNumbered(const std::vector<Step>& steps, uint64_t number) {
  const auto found =
      std::find_if(steps.rbegin(), steps.rend(), [&](const Step& step) { return step.number == number; });
  return found == steps.rend() ? nullptr : &*found;
}

uint64_t StepLog::Of(const MeasureValues& values) const {
  return measure_ == Measure::kAllocated ? values.allocated : values.total;
}

void StepLog::Begin(uint64_t number, const StepPoint& at) {
  open_ = {};
  open_.number = number;
  open_.start = open_.peak = at;
  is_open_ = true;
  trains_ = is_backward_ = has_begun_ = evaluates_ = false;
}

void StepLog::Close(const StepPoint& at, bool complete) {
  if (!is_open_) return;
  is_open_ = false;
  open_.complete = complete;
  open_.end = at;
  if (Of(at.values) > Of(open_.peak.values)) open_.peak = at;
  if (steps_.size() < kMaxSteps) {
    steps_.push_back(open_);
  } else {
    ++dropped_;
  }
}

// The program's own steps win, from the first one on.
void StepLog::ForgetDerived() {
  if (source_ == StepSource::kUser) return;
  source_ = StepSource::kUser;
  steps_.clear();
  optimizers_.clear();
  is_open_ = false;
}

// Leaves an evaluation out that ran before the open step's first pass.
void StepLog::Train(uint32_t kind, StepPass pass, const StepPoint& before) {
  if (pass == StepPass::kEvaluation) {
    evaluates_ |= source_ == StepSource::kOptimizer && !has_begun_;
    return;
  }
  const bool is_pass = pass != StepPass::kNone || kind == trace::OPTIMIZER_STEP;
  if (!is_pass) return;
  if (std::exchange(evaluates_, false)) open_.start = open_.peak = before;
  has_begun_ = true;
}

void StepLog::Before(uint64_t index, const EventBatch& batch, size_t i, const MeasureValues& values, StepPass pass) {
  const StepPoint before{index == 0 ? 0 : index - 1, last_ns_ == 0 ? batch.time_ns(i) : last_ns_, values};
  last_ns_ = std::max(last_ns_, batch.time_ns(i));
  if (is_open_ && Of(values) > Of(open_.peak.values)) open_.peak = before;
  const uint32_t kind = batch.kind(i);
  if (kind == trace::STEP) {
    ForgetDerived();
    Close(before, true);
    if (batch.handle(i) != 0) Begin(batch.handle(i), before);
    return;
  }
  const bool forward = pass == StepPass::kForward;
  Train(kind, pass, before);
  if (forward) is_backward_ = false;
  if (pass == StepPass::kBackward && !std::exchange(is_backward_, true)) ++open_.backward_passes;
  trains_ |= kind == trace::SAVED || kind == trace::ALLOC_FAILED;
  const bool is_users = source_ == StepSource::kUser;
  if (!is_users && !is_open_ && (forward || kind == trace::OPTIMIZER_STEP)) Begin(steps_.size() + 1, before);
  if (kind != trace::OPTIMIZER_STEP) return;
  uint64_t& count = batch.size(i) == 0 ? open_.trainer_step : open_.epoch;
  if (const uint64_t stated = batch.handle(i) >> 32; stated != 0) count = stated;
  if (is_users) return;
  source_ = StepSource::kOptimizer;
  if (batch.size(i) == 0) return;
  Close(before, true);
  if (dropped_ == 0) optimizers_.push_back(static_cast<uint32_t>(batch.handle(i)));
  Begin(steps_.size() + 1, before);
}

void StepLog::Absorb(const Step& later, Step* step) const {
  step->backward_passes += later.backward_passes;
  if (later.trainer_step != 0) step->trainer_step = later.trainer_step;
  if (later.epoch != 0) step->epoch = later.epoch;
  if (Of(later.peak.values) > Of(step->peak.values)) step->peak = later.peak;
  step->end = later.end;
}

// Makes steps of pieces. Behind the last step only what is open is left.
void StepLog::Join() {
  const std::vector<bool> ends = StepEnds(optimizers_);
  std::vector<Step> joined;
  bool goes_on = false;
  for (size_t i = 0; i < ends.size(); ++i) {
    if (goes_on) {
      Absorb(steps_[i], &joined.back());
    } else {
      joined.push_back(steps_[i]);
      joined.back().number = joined.size();
    }
    goes_on = !ends[i];
  }
  if (goes_on) {
    Step last = joined.back();
    joined.pop_back();
    if (is_open_) Absorb(std::exchange(open_, last), &open_);
  }
  open_.number = joined.size() + dropped_ + 1;
  steps_ = std::move(joined);
}

void StepLog::Finish(uint64_t index, const MeasureValues& values) {
  const StepPoint at{index == 0 ? 0 : index - 1, last_ns_, values};
  if (source_ == StepSource::kOptimizer) Join();
  if (!is_open_) return;
  // Without a single step of an optimizer nothing tells where steps begin.
  if (source_ == StepSource::kUser || (source_ == StepSource::kOptimizer && trains_)) Close(at, false);
  is_open_ = false;
}

// The state between two steps is the end of the first.

}  // namespace gpumem
