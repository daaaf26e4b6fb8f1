// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/leaks/survival_pass.h"

#include <algorithm>
#include <utility>

namespace gpumem {
namespace {

// Changes are merged when there are so many, and twice as many as after the last merge.
constexpr size_t kCompactFrom = 128;

// Fewer graphs are no list of sizes.
constexpr uint64_t kLeastGraphs = 4;

// Two iterations, or a twentieth of all where there are many; one where there are hardly enough to judge.
uint32_t DelayFor(uint64_t anchors) {
  if (anchors < 12) return 1;
  return static_cast<uint32_t>(std::clamp<uint64_t>(anchors / 20, 2, 16));
}

SurvivorKind KindOf(const BlockLabel& label) {
  if (label.role != TensorRole::kNone && label.role != TensorRole::kInput) return SurvivorKind::kModel;
  return label.saved ? SurvivorKind::kSaved : SurvivorKind::kPlain;
}

}  // namespace

void SurvivalCurve::Append(const Change& change) {
  if (!changes_.empty() && changes_.back().anchor == change.anchor) {
    changes_.back().bytes += change.bytes;
    changes_.back().blocks += change.blocks;
    return;
  }
  changes_.push_back(change);
  if (changes_.size() >= std::max(kCompactFrom, 2 * compacted_)) Compact();
}

void SurvivalCurve::Compact() {
  std::sort(changes_.begin(), changes_.end(), [](const Change& a, const Change& b) { return a.anchor < b.anchor; });
  size_t kept = 0;
  for (const Change& change : changes_) {
    if (kept > 0 && changes_[kept - 1].anchor == change.anchor) {
      changes_[kept - 1].bytes += change.bytes;
      changes_[kept - 1].blocks += change.blocks;
    } else {
      changes_[kept++] = change;
    }
  }
  changes_.resize(kept);
  compacted_ = kept;
}

void SurvivalCurve::Add(uint32_t from_anchor, uint32_t to_anchor, uint64_t bytes) {
  Append({from_anchor, static_cast<int64_t>(bytes), 1});
  Append({to_anchor, -static_cast<int64_t>(bytes), -1});
}

void SurvivalCurve::AddTo(Values* values) const {
  std::vector<int64_t> bytes(values->bytes.size() + 1), blocks(values->bytes.size() + 1);
  for (const Change& change : changes_) {
    const size_t at = std::min<size_t>(change.anchor, values->bytes.size());
    bytes[at] += change.bytes;
    blocks[at] += change.blocks;
  }
  int64_t sum = 0, count = 0;
  for (size_t i = 0; i < values->bytes.size(); ++i) {
    values->bytes[i] += sum += bytes[i];
    values->blocks[i] += count += blocks[i];
  }
}

SurvivalPass::SurvivalPass(const LabelReplay* replay, const std::vector<Loop>& loops, const StackClassifier& classifier,
                           uint64_t end_ns)
    : replay_(replay), loops_(loops), owners_(&replay->state(), classifier.stacks()->objects(), end_ns) {
  for (const Loop& loop : loops) {
    if (loop.kind == Loop::Kind::kLine) clock_.emplace(loop, classifier);
    Pace& pace = paces_.emplace_back();
    pace.stride = (loop.iterations + kMaxAnchors - 1) / kMaxAnchors;
    pace.delay = DelayFor(loop.iterations / std::max<uint64_t>(pace.stride, 1));
    pace.stride = std::max<uint64_t>(pace.stride, 1);
  }
}

std::pair<size_t, size_t> SurvivalPass::AnchorsOf(size_t loop) const {
  return {paces_[loop].first_anchor, paces_[loop].end_anchor};
}

const MeasureValues& SurvivalPass::TotalsAt(size_t anchor, uint32_t slot) const {
  static constexpr MeasureValues kNothing;
  return slot < totals_[anchor].size() ? totals_[anchor][slot] : kNothing;
}

uint64_t SurvivalPass::HighestBefore(size_t anchor, uint32_t slot) const {
  return slot < highest_[anchor].size() ? highest_[anchor][slot] : 0;
}

void SurvivalPass::NoteHighest() {
  const LiveState& state = replay_->state();
  if (highest_now_.size() < state.slots()) highest_now_.resize(state.slots());
  for (uint32_t slot = 0; slot < state.slots(); ++slot)
    highest_now_[slot] = std::max(highest_now_[slot], state.values(slot).allocated);
}

bool SurvivalPass::IsIteration(const Loop& loop, uint64_t index, bool ticks) {
  if (loop.kind == Loop::Kind::kLine) return ticks;
  if (next_step_ >= loop.anchors.size() || loop.anchors[next_step_] > index) return false;
  ++next_step_;
  return true;
}

void SurvivalPass::Before(uint64_t index, const EventBatch* batch, size_t i) {
  if (batch != nullptr && batch->kind(i) == trace::ALLOC) ended_.clear();
  if (batch != nullptr) {
    last_ns_ = std::max(last_ns_, batch->time_ns(i));
    owners_.Before(last_ns_);
  } else {
    owners_.Finish();
    is_over_ = true;
  }
  NoteHighest();
  const bool ticks = clock_ && batch != nullptr && clock_->Ticks(index, *batch, i);
  if (batch != nullptr && batch->kind(i) == trace::ALLOC && batch->layer(i) == trace::TORCH && batch->handle(i) != 0)
    NoteGraph(batch->handle(i), batch->size(i));
  while (loop_ < loops_.size() && index > loops_[loop_].last_event + 1) {
    for (const Stay& stay : std::exchange(may_stay_, {})) stayed_[stay.key].Add(stay.from, UINT32_MAX, stay.bytes);
    ++loop_;
  }
  if (loop_ == loops_.size() || !IsIteration(loops_[loop_], index, ticks)) return;
  Pace& pace = paces_[loop_];
  if (pace.iterations++ % pace.stride != 0) return;
  if (!std::exchange(pace.has_anchor, true)) pace.first_anchor = anchors_.size();
  may_stay_.clear();
  anchors_.push_back(index);
  times_.push_back(last_ns_);
  delays_.push_back(pace.delay);
  pace.end_anchor = anchors_.size();
  const LiveState& state = replay_->state();
  std::vector<MeasureValues>& totals = totals_.emplace_back();
  for (uint32_t slot = 0; slot < state.slots(); ++slot) totals.push_back(state.values(slot));
  highest_.push_back(std::exchange(highest_now_, {}));
}

void SurvivalPass::Live(const SurvivorKey& key, uint64_t alloc_event, uint64_t end, uint64_t bytes) {
  ended_.push_back({key.slot, key.stack, bytes, is_over_});
  if (loop_ < loops_.size() && paces_[loop_].has_anchor && !is_over_)
    paces_[loop_].first_end = std::min(paces_[loop_].first_end, end);
  auto first = static_cast<size_t>(std::upper_bound(anchors_.begin(), anchors_.end(), alloc_event) - anchors_.begin());
  const auto last = static_cast<size_t>(std::upper_bound(anchors_.begin(), anchors_.end(), end) - anchors_.begin());
  if (first >= last) return;
  const uint32_t delay = delays_[first];
  const bool is_short = first + delay >= last;
  const auto at = [shift = is_short ? 0 : delay](size_t anchor) { return static_cast<uint32_t>(anchor + shift); };
  (is_short ? short_curves_ : curves_)[key].Add(at(first), at(last), bytes);
  if (!is_short && key.kind == SurvivorKind::kModel) NoteStay(key, first, last, bytes);
}

void SurvivalPass::BlockSaved(const TorchBlock& block) {
  if (loop_ == loops_.size() || !paces_[loop_].has_anchor) return;
  std::vector<uint64_t>& saved = paces_[loop_].saved;
  if (block.slot >= saved.size()) saved.resize(block.slot + 1u);
  saved[block.slot] += block.size;
}

void SurvivalPass::NoteGraph(uint64_t capture, uint64_t bytes) {
  if (loop_ == loops_.size() || !paces_[loop_].has_anchor) return;
  Pace& pace = paces_[loop_];
  if (pace.graph != capture) {
    if (pace.graphs++ > 1) {
      pace.graphs_rise &= pace.graph_bytes > pace.bytes_before;
      pace.graphs_fall &= pace.graph_bytes < pace.bytes_before;
    }
    pace.graph = capture;
    pace.bytes_before = std::exchange(pace.graph_bytes, 0);
  }
  pace.graph_bytes += bytes;
}

bool SurvivalPass::PreparesGraphs(size_t loop) const {
  const Pace& pace = paces_[loop];
  // The first one may be before the first anchor, and what is behind the loop may have none.
  return pace.graphs + 2 >= pace.iterations && pace.graphs >= kLeastGraphs && (pace.graphs_rise || pace.graphs_fall);
}

bool SurvivalPass::LetsGo(size_t loop) const {
  const Pace& pace = paces_[loop];
  return pace.end_anchor > pace.first_anchor && pace.first_end < anchors_[pace.end_anchor - 1];
}

void SurvivalPass::NoteStay(const SurvivorKey& key, size_t first, size_t last, uint64_t bytes) {
  const Stay stay{key, static_cast<uint32_t>(first + delays_[first]), bytes};
  for (size_t i = 0; i < paces_.size(); ++i) {
    const Pace& pace = paces_[i];
    if (!pace.has_anchor || first < pace.first_anchor || first >= pace.end_anchor || last < pace.end_anchor) continue;
    if (i == loop_) {
      may_stay_.push_back(stay);
    } else {
      stayed_[key].Add(stay.from, UINT32_MAX, bytes);
    }
  }
}

std::vector<int64_t> SurvivalPass::StayedOf(const SurvivorKey& key) const {
  SurvivalCurve::Values values{std::vector<int64_t>(anchor_count()), std::vector<int64_t>(anchor_count())};
  const auto found = stayed_.find(key);
  if (found != stayed_.end()) found->second.AddTo(&values);
  for (const Stay& stay : may_stay_) {
    for (size_t at = stay.from; stay.key == key && at < values.bytes.size(); ++at)
      values.bytes[at] += static_cast<int64_t>(stay.bytes);
  }
  return values.bytes;
}

double SurvivalPass::SavedPerIteration(size_t loop, uint32_t slot) const {
  const Pace& pace = paces_[loop];
  if (slot >= pace.saved.size() || pace.iterations < 2) return 0;
  return static_cast<double>(pace.saved[slot]) / static_cast<double>(pace.iterations - 1);
}

void SurvivalPass::BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool) {
  Live({block.slot, block.stack, KindOf(label)}, label.alloc_event, end, block.size);
}

void SurvivalPass::CudaEnded(const CudaLife& life, uint64_t end) {
  Live({life.slot, life.stack, SurvivorKind::kOutside}, life.alloc_event, end, life.size);
}

void SurvivalPass::HostEnded(const CudaLife& life, uint64_t end) {
  const SurvivorKind kind = life.memory == trace::MANAGED ? SurvivorKind::kManaged : SurvivorKind::kHost;
  Live({life.slot, life.stack, kind}, life.alloc_event, end, life.size);
}

void SurvivalPass::DriverEnded(const CudaLife& life, uint64_t end) {
  if (life.size != 0) Live({life.slot, life.stack, SurvivorKind::kDriver}, life.alloc_event, end, life.size);
}

}  // namespace gpumem
