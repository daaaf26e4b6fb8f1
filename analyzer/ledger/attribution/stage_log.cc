// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/stage_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trace/mark_ranges.h"

namespace gpumem {
namespace {

// Of these a peak is kept: stages inside stages, threads that have stages open, ranges of the process.
constexpr size_t kDeepest = 64, kMaxThreads = 1024, kMaxRanges = 64;

struct RunPartWords {
  absl::string_view name, title;
};
constexpr RunPartWords kRunPartWords[] = {
    {"other", "other"},
    {"model_load", "model load"},
    {"data_preparation", "data preparation"},
    {"wrapping", "wrapping"},
    {"optimizer_setup", "optimizer set-up"},
    {"privacy_setup", "privacy engine set-up"},
    {"training", "training"},
    {"inference", "inference"},
    {"evaluation", "evaluation"},
    {"checkpoint_load", "checkpoint load"},
    {"checkpoint_save", "checkpoint save"},
    {"lora_setup", "LoRA set-up"},
};

bool Loops(RunPart part) { return part == RunPart::kTraining || part == RunPart::kEvaluation; }

}  // namespace

absl::string_view RunPartName(RunPart part) { return kRunPartWords[static_cast<size_t>(part)].name; }
absl::string_view RunPartTitle(RunPart part) { return kRunPartWords[static_cast<size_t>(part)].title; }

RunPart PartOf(const StackClassification& classification, RunPart current) {
  switch (classification.stage) {
    case Stage::kNone:
    case Stage::kCollection:
    case Stage::kCollective:
      return classification.evaluates ? RunPart::kEvaluation : current;
    case Stage::kConstruction:
      return Loops(current) && classification.is_weak ? current : RunPart::kModelLoad;
    case Stage::kData:  // the batches of a loop are the loop's
      if (classification.evaluates) return RunPart::kEvaluation;
      return Loops(current) ? current : RunPart::kData;
    case Stage::kWrapping:
      return Loops(current) ? current : RunPart::kWrapping;  // compiling what runs is a part of running it
    case Stage::kOptimizerSetup:
      return RunPart::kOptimizerSetup;
    case Stage::kPrivacySetup:
      return RunPart::kPrivacySetup;
    case Stage::kLoraSetup:
      return RunPart::kLoraSetup;
    case Stage::kLoad:
      return RunPart::kCheckpointLoad;
    case Stage::kSave:
      return RunPart::kCheckpointSave;
    case Stage::kEvaluation:
      return RunPart::kEvaluation;
    case Stage::kForward:
    case Stage::kLoss:
    case Stage::kBackward:
    case Stage::kOptimizer:
    case Stage::kZeroGrad:
      break;
  }
  return RunPart::kTraining;
}

uint64_t StageLog::Of(const MeasureValues& values) const {
  return measure_ == Measure::kAllocated ? values.allocated : values.total;
}

StageLog::Open StageLog::Begin(bool is_named, RunPart part, const std::string& user, const StepPoint& at) {
  Open open;
  open.start = open.peak = at;
  open.path = user;
  const auto [it, is_new] = places_.try_emplace({is_named, part, user}, rows_.size());
  if (is_new && rows_.size() >= kMaxRows) {
    places_.erase(it);
    ++unlisted_;
    return open;
  }
  open.row = it->second;
  if (is_new) {
    StageRow& row = rows_.emplace_back();
    row.is_named = is_named;
    row.part = part;
    row.user = user;
    row.start = row.peak = row.end = at;
  }
  return open;
}

void StageLog::Raise(const StepPoint& at, Open* open) const {
  if (Of(at.values) > Of(open->peak.values)) open->peak = at;
}

void StageLog::Close(const Open& open, const StepPoint& at, bool complete) {
  if (open.row == kNone) return;
  StageRow& row = rows_[open.row];
  ++row.count;
  row.time_ns += at.time_ns - std::min(at.time_ns, open.start.time_ns);
  row.growth_bytes += static_cast<int64_t>(Of(at.values)) - static_cast<int64_t>(Of(open.start.values));
  row.end = at;
  row.complete = complete;
  for (const StepPoint& point : {open.peak, at}) {
    if (Of(point.values) > Of(row.peak.values)) row.peak = point;
  }
}

void StageLog::Enter(RunPart part, const std::string& user, const StepPoint& at) {
  if (part == part_ && user == user_ && is_entered_) return;
  CloseDerived(at, true);
  if (part == RunPart::kEvaluation && part_ != part) before_evaluation_ = part_;
  is_entered_ = true;
  part_ = part;
  user_ = user;
  derived_ = Begin(false, part, user, at);
}

// An evaluation is over with the last of its memory events: what follows (a checkpoint's copies to the host, teardown)
// shows only in time.
void StageLog::CloseDerived(const StepPoint& at, bool complete) {
  const bool ends_early = part_ == RunPart::kEvaluation && evaluation_end_.time_ns >= derived_.start.time_ns;
  Close(derived_, ends_early ? evaluation_end_ : at, complete);
}

// The part under way for this allocation: on the thread that evaluates, an allocation outside of the function that does
// comes after it.
RunPart StageLog::PartBefore(const EventBatch& batch, size_t i, const StackClassification& classification) {
  if (classification.evaluates || classification.stage == Stage::kEvaluation) {
    evaluation_thread_ = batch.thread(i);
    return part_;
  }
  if (part_ != RunPart::kEvaluation || batch.thread(i) != evaluation_thread_) return part_;
  return before_evaluation_ == RunPart::kTraining ? RunPart::kTraining : RunPart::kOther;
}

void StageLog::Push(uint32_t tid, const std::string& text, const StepPoint& at) {
  if (pushed_.size() >= kMaxThreads && pushed_.count(tid) == 0) {
    ++unlisted_;
    return;
  }
  std::vector<Open>& pushed = pushed_[tid];
  if (pushed.size() >= kDeepest) {
    ++unlisted_;
    pushed.emplace_back();  // for its pop
    return;
  }
  const std::string path = pushed.empty() ? text : absl::StrCat(pushed.back().path, " > ", text);
  pushed.push_back(Begin(true, RunPart::kOther, path, at));
}

// What the program named begins or ends.
void StageLog::Mark(const EventBatch& batch, size_t i, const StepPoint& at) {
  const uint32_t tid = ThreadOfMark(batch, i, *stacks_);
  if (library_ranges_.Take(batch, i, tid, *stacks_)) return;
  const std::string& text = stacks_->string(batch.text(i));
  switch (batch.kind(i)) {
    case trace::RANGE_PUSH:
      Push(tid, text, at);
      break;
    case trace::RANGE_POP:
      if (const auto pushed = pushed_.find(tid); pushed != pushed_.end()) {
        Close(pushed->second.back(), at, true);
        pushed->second.pop_back();
        if (pushed->second.empty()) pushed_.erase(pushed);
      }
      break;
    case trace::RANGE_START:
      if (ranges_.size() < kMaxRanges) {
        ranges_[batch.handle(i)] = Begin(true, RunPart::kOther, text, at);
      } else {
        ++unlisted_;
      }
      break;
    case trace::RANGE_END:
      if (const auto range = ranges_.find(batch.handle(i)); range != ranges_.end()) {
        Close(range->second, at, true);
        ranges_.erase(range);
      }
      break;
    default:
      break;
  }
}

void StageLog::Before(uint64_t index, const EventBatch& batch, size_t i, const MeasureValues& values,
                      const StackClassification* classification, const std::string& user) {
  const uint64_t now_ns = std::max(last_ns_, batch.time_ns(i));
  StepPoint before{index == 0 ? 0 : index - 1, last_ns_ == 0 ? now_ns : last_ns_, values};
  if (std::exchange(moves_evaluation_, false)) evaluation_end_ = before;
  Raise(before, &derived_);
  for (auto& [tid, opens] : pushed_) {
    for (size_t k = 0; k < std::min(opens.size(), kDeepest); ++k) Raise(before, &opens[k]);
  }
  for (auto& [number, open] : ranges_) Raise(before, &open);
  last_ns_ = now_ns;
  before.time_ns = now_ns;  // of what begins here
  trains_ |= batch.kind(i) == trace::OPTIMIZER_STEP ||
             (classification != nullptr && classification->stage == Stage::kBackward);
  if (IsMark(batch.kind(i))) Mark(batch, i, before);
  if (batch.kind(i) == trace::OPTIMIZER_STEP) {
    Enter(RunPart::kTraining, user_, before);
  } else if (classification != nullptr) {
    Enter(PartOf(*classification, PartBefore(batch, i, *classification)), user, before);
  }
  moves_evaluation_ = part_ == RunPart::kEvaluation && !IsMark(batch.kind(i)) && !IsLabel(batch.kind(i));
}

void StageLog::Finish(uint64_t index, const MeasureValues& values) {
  const StepPoint at{index == 0 ? 0 : index - 1, last_ns_, values};
  if (moves_evaluation_) evaluation_end_ = at;
  CloseDerived(at, false);
  for (const auto& [tid, opens] : pushed_) {
    for (const Open& open : opens) Close(open, at, false);
  }
  for (const auto& [number, open] : ranges_) Close(open, at, false);
  for (StageRow& row : rows_) {
    if (!trains_ && row.part == RunPart::kTraining) row.part = RunPart::kInference;
  }
}

}  // namespace gpumem
