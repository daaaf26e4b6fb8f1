// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/iteration_counter.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace gpumem {
namespace {

// A loop is in this share of its stretches, or in as many as it has iterations.
constexpr double kLeastSpread = 0.6;
// Its first iteration is in the first part of what is looked at, its last one in the last part.
constexpr double kLatestStart = 0.35, kEarliestEnd = 0.8;
// What follows the last step is looked at for a loop of its own where it has at least this share of the trace.
constexpr double kLeastTail = 0.03;
// A phase is this part of what is looked at, or more, and has more iterations than a list of layers or sizes.
constexpr size_t kPhases = 8, kLeastPhases = 2;
constexpr uint64_t kLeastOfPhase = 16;

}  // namespace

bool LoopClock::Ticks(uint64_t index, const EventBatch& batch, size_t i) {
  if (batch.kind(i) != trace::ALLOC || batch.stack(i) == 0 || (batch.layer(i) == trace::TORCH) != is_torch_)
    return false;
  bool ticks = false;
  calls_.Allocated(batch.thread(i), batch.stack(i),
                   [&](const CallLoops::Place& place) { ticks |= place.number == place_; });
  return ticks && index >= first_event_ && index <= last_event_;
}

void IterationCounter::Widen() {
  const auto widen = [](Counts* counts) {
    for (size_t i = 0; i < kStretches; ++i)
      (*counts)[i] = i < kStretches / 2 ? (*counts)[2 * i] + (*counts)[2 * i + 1] : 0;
  };
  for (auto& [stack, counted] : counts_) widen(&counted.counts);
  for (Source& source : sources_)
    for (auto& [place, line] : source.lines) widen(&line.counts);
  for (size_t i = 0; i < kStretches / 2; ++i) stretch_events_[i] = stretch_events_[2 * i];
  allocations_a_stretch_ *= 2;
}

void IterationCounter::Count(uint64_t event, uint32_t thread, uint64_t stack, bool is_torch) {
  // What is tried out while a model is compiled is no part of what repeats, however much it is.
  const bool is_compiling = classifier_->Of(stack).stage == Stage::kWrapping;
  const uint64_t index = is_compiling ? allocations_ : allocations_++;
  while (index >= allocations_a_stretch_ * kStretches) Widen();
  if (index % allocations_a_stretch_ == 0) stretch_events_[index / allocations_a_stretch_] = event;
  Source& source = sources_[is_torch];
  source.calls.Allocated(thread, stack, [&](const CallLoops::Place& place) {
    const auto [line, is_new] = source.lines.try_emplace(place.number);
    if (is_new) line->second = {place, stack, {}};
    ++line->second.counts[index / allocations_a_stretch_];
  });
  if (!is_torch) return;
  const auto [counted, is_new] = counts_.try_emplace(stack);
  if (is_new) counted->second.first = index;
  ++counted->second.counts[index / allocations_a_stretch_];
}

void IterationCounter::Before(uint64_t index, const EventBatch* batch, size_t i) {
  static constexpr MeasureValues kNothing;
  events_ = index;
  if (batch == nullptr) return steps_.Finish(index, kNothing);
  if (batch->time_ns(i) < from_ns_) {
    from_event_ = index + 1;
    allocations_before_from_ = allocations_;
  }
  const bool is_alloc = batch->kind(i) == trace::ALLOC;
  bool forward = false;
  if (is_alloc && steps_.waits() && batch->layer(i) == trace::TORCH) {
    const StackClassification classification = classifier_->Of(batch->stack(i));
    forward = classification.module != 0 && classification.stage == Stage::kForward;
  }
  steps_.Before(index, *batch, i, kNothing, forward ? StepPass::kForward : StepPass::kNone);
  if (steps_.ends() != ends_.size()) ends_.push_back({index, allocations_});
  if (is_alloc && batch->stack(i) != 0)
    Count(index, batch->thread(i), batch->stack(i), batch->layer(i) == trace::TORCH);
}

Loop IterationCounter::LoopOfSteps() const {
  Loop loop;
  loop.are_marked = steps_.source() == StepSource::kUser;
  for (const Step& step : steps_.steps()) {
    const uint64_t anchor = step.end.event_index + 1;
    if (!step.complete || anchor <= from_event_) continue;
    if (loop.anchors.empty()) loop.first_event = step.start.event_index;
    loop.anchors.push_back(anchor);
  }
  loop.iterations = loop.anchors.size();
  loop.last_event = loop.anchors.empty() ? 0 : loop.anchors.back();
  return loop;
}

IterationCounter::Spread IterationCounter::SpreadOf(const Counts& counts, size_t first, size_t last) const {
  Spread spread;
  uint64_t stretches = 0;
  size_t begin = kStretches, end = 0;
  for (size_t i = first; i <= last; ++i) {
    if (counts[i] == 0) continue;
    spread.iterations += counts[i];
    ++stretches;
    begin = std::min(begin, i);
    end = i + 1;
  }
  const auto length = static_cast<double>(last - first + 1);
  const double expected = std::min(static_cast<double>(spread.iterations), length);
  spread.is_even = spread.iterations + 1 >= kLeastIterations &&
                   static_cast<double>(stretches) >= kLeastSpread * expected &&
                   static_cast<double>(begin - first) <= kLatestStart * length &&
                   static_cast<double>(end - first) >= kEarliestEnd * length;
  return spread;
}

size_t IterationCounter::LastStretch() const {
  return std::min<size_t>((allocations_ - 1) / allocations_a_stretch_, kStretches - 1);
}

// The outermost line; of those at one depth the one that is come back to most often. What a pass repeats are its
// layers.
bool IterationCounter::FindLine(size_t first, uint64_t least, bool is_torch, Loop* loop) const {
  const size_t last = LastStretch();
  const Line* found = nullptr;
  for (const auto& [number, line] : sources_[is_torch].lines) {
    if (line.place.in_pass || line.place.in_set_up) continue;
    const Spread spread = SpreadOf(line.counts, first, last);
    if (!spread.is_even || spread.iterations < least) continue;
    const auto order = [](const Line& each, uint64_t iterations) {
      return std::make_tuple(each.place.depth, UINT64_MAX - iterations, each.place.number);
    };
    if (found != nullptr && order(*found, loop->iterations) < order(line, spread.iterations)) continue;
    found = &line;
    loop->iterations = spread.iterations;
  }
  if (found == nullptr || OnlySetsUp(first)) return false;
  loop->kind = Loop::Kind::kLine;
  loop->place = found->place.number;
  loop->is_torch = is_torch;
  loop->stack = found->stack;
  loop->last_event = events_;
  return true;
}

// A model that is built layer by layer, and nothing else: its loop is no work that repeats.
bool IterationCounter::OnlySetsUp(size_t first) const {
  for (const auto& [stack, counted] : counts_) {
    const bool is_in = std::any_of(counted.counts.begin() + static_cast<std::ptrdiff_t>(first), counted.counts.end(),
                                   [](uint32_t count) { return count != 0; });
    if (is_in && !IsSetUp(classifier_->Of(stack).stage)) return false;
  }
  return !counts_.empty();
}

// The longest one.
bool IterationCounter::FindPhase(size_t first, Loop* loop) const {
  const size_t stretches = LastStretch() + 1 - first;
  for (size_t phase = 1; phase + kLeastPhases <= kPhases; ++phase) {
    const size_t begin = first + stretches * phase / kPhases;
    if (!FindLine(begin, kLeastOfPhase, true, loop)) continue;
    loop->first_event = stretch_events_[begin];
    return true;
  }
  return false;
}

uint64_t IterationCounter::FirstStackOfCalls() const {
  struct Calls {
    uint64_t stacks = 0, first = UINT64_MAX, first_stack = 0;
  };
  std::map<uint64_t, Calls> by_count;
  for (const auto& [stack, counted] : counts_) {
    const StackClassification classification = classifier_->Of(stack);
    const auto count = std::accumulate(counted.counts.begin(), counted.counts.end(), uint64_t{0});
    if (classification.module == 0 || count < kLeastIterations || IsSetUp(classification.stage)) continue;
    Calls& calls = by_count[count];
    ++calls.stacks;
    if (counted.first >= calls.first) continue;
    calls.first = counted.first;
    calls.first_stack = stack;
  }
  const auto most = std::max_element(by_count.begin(), by_count.end(),
                                     [](const auto& a, const auto& b) { return a.second.stacks < b.second.stacks; });
  return most == by_count.end() ? 0 : most->second.first_stack;
}

std::vector<Loop> IterationCounter::Loops() const {
  std::vector<Loop> loops;
  Loop steps = LoopOfSteps();
  uint64_t rest = from_event_, allocations_before_rest = allocations_before_from_;
  if (steps.iterations > 0) {  // what repeats inside of a few steps is a part of them
    rest = steps.last_event + 1;
    const auto end = std::lower_bound(ends_.begin(), ends_.end(), std::make_pair(steps.last_event, uint64_t{0}));
    if (end != ends_.end()) allocations_before_rest = end->second;
  }
  if (steps.iterations >= kLeastIterations) loops.push_back(std::move(steps));
  Loop loop;
  const auto whole = static_cast<double>(allocations_ - allocations_before_from_);
  const auto part = static_cast<double>(allocations_ - allocations_before_rest);
  if (part <= 0 || part < kLeastTail * whole) return loops;
  const size_t first = allocations_before_rest / allocations_a_stretch_;
  loop.first_event = rest;
  if (FindLine(first, 0, true, &loop) || FindLine(first, 0, false, &loop) || (loops.empty() && FindPhase(first, &loop)))
    loops.push_back(std::move(loop));
  return loops;
}

}  // namespace gpumem
