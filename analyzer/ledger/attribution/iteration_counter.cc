// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/iteration_counter.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace gpumem {
namespace {

// A loop has stacks in this share of its stretches, or in as many as it has iterations.
constexpr double kLeastSpread = 0.6;
// Its first iteration is in the first part of what is looked at, its last one in the last part.
constexpr double kLatestStart = 0.35, kEarliestEnd = 0.8;
// A number of iterations is a loop's where at least this share of the stacks, as the commonest number has, has it.
constexpr double kLeastStacks = 0.05;
// What follows the last step is looked at for a loop of its own where it has at least this share of the trace.
constexpr double kLeastTail = 0.03;

}  // namespace

bool Loop::Ticks(uint64_t index, const EventBatch& batch, size_t i) const {
  return index >= first_event && index <= last_event && batch.kind(i) == trace::ALLOC && batch.stack(i) == stack &&
         (batch.layer(i) == trace::TORCH) == is_torch;
}

void IterationCounter::Count(Source source) {
  const uint64_t index = allocations_++;
  while (index >= allocations_a_stretch_ * kStretches) {
    for (auto& [key, counted] : counts_) {
      Counts& counts = counted.counts;
      for (size_t i = 0; i < kStretches; ++i) counts[i] = i < kStretches / 2 ? counts[2 * i] + counts[2 * i + 1] : 0;
    }
    allocations_a_stretch_ *= 2;
  }
  const auto [counted, is_new] = counts_.try_emplace(source);
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
  if (steps_.steps().size() != steps_seen_) {
    steps_seen_ = steps_.steps().size();
    allocations_before_last_step_ = allocations_;
  }
  if (is_alloc && batch->stack(i) != 0) Count({batch->stack(i), batch->layer(i) == trace::TORCH});
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

// Of the numbers of iterations that many stacks share the lowest: the outermost loop.
bool IterationCounter::FindStackLoop(uint64_t from_allocation, Loop* loop) const {
  struct Stacks {
    uint64_t count = 0;
    Source earliest;
  };
  std::map<uint64_t, Stacks> by_iterations;
  const size_t first = from_allocation / allocations_a_stretch_;
  const size_t last = std::min<size_t>((allocations_ - 1) / allocations_a_stretch_, kStretches - 1);
  const auto length = static_cast<double>(last - first + 1);
  for (const auto& [source, counted] : counts_) {
    const auto [stack, is_torch] = source;
    if (!is_torch && !outside_.contains(stack)) continue;
    const Counts& counts = counted.counts;
    uint64_t iterations = 0, stretches = 0;
    size_t begin = kStretches, end = 0;
    for (size_t i = first; i <= last; ++i) {
      if (counts[i] == 0) continue;
      iterations += counts[i];
      ++stretches;
      begin = std::min(begin, i);
      end = i + 1;
    }
    if (iterations < kLeastIterations) continue;
    const StackClassification classification = classifier_->Of(stack);
    const Stage stage = classification.stage;
    const bool is_in_pass =
        classification.in_forward || stage == Stage::kForward || stage == Stage::kLoss || stage == Stage::kBackward;
    if (IsSetUp(stage) || (may_be_one_pass_ && is_in_pass)) continue;
    const double expected = std::min(static_cast<double>(iterations), length);
    if (static_cast<double>(stretches) < kLeastSpread * expected) continue;
    if (static_cast<double>(begin - first) > kLatestStart * length) continue;
    if (static_cast<double>(end - first) < kEarliestEnd * length) continue;
    Stacks& stacks = by_iterations[iterations];
    if (stacks.count++ == 0 || source < stacks.earliest) stacks.earliest = source;
  }
  uint64_t most = 0;
  for (const auto& [iterations, stacks] : by_iterations) most = std::max(most, stacks.count);
  for (const auto& [iterations, stacks] : by_iterations) {
    if (static_cast<double>(stacks.count) < kLeastStacks * static_cast<double>(most)) continue;
    loop->kind = Loop::Kind::kStack;
    std::tie(loop->stack, loop->is_torch) = stacks.earliest;
    loop->last_event = events_;
    loop->iterations = iterations;
    return true;
  }
  return false;
}

uint64_t IterationCounter::FirstStackOfCalls() const {
  struct Calls {
    uint64_t stacks = 0, first = UINT64_MAX, first_stack = 0;
  };
  std::map<uint64_t, Calls> by_count;
  for (const auto& [source, counted] : counts_) {
    const auto [stack, is_torch] = source;
    const StackClassification classification = classifier_->Of(stack);
    const auto count = std::accumulate(counted.counts.begin(), counted.counts.end(), uint64_t{0});
    if (!is_torch || classification.module == 0 || count < kLeastIterations || IsSetUp(classification.stage)) continue;
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
    allocations_before_rest = allocations_before_last_step_;
  }
  if (steps.iterations >= kLeastIterations) loops.push_back(std::move(steps));
  Loop loop;
  const auto whole = static_cast<double>(allocations_ - allocations_before_from_);
  const auto part = static_cast<double>(allocations_ - allocations_before_rest);
  if (part > 0 && part >= kLeastTail * whole && FindStackLoop(allocations_before_rest, &loop)) {
    loop.first_event = rest;
    loops.push_back(std::move(loop));
  }
  return loops;
}

}  // namespace gpumem
