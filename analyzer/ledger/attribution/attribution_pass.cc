// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/attribution_pass.h"

#include <algorithm>
#include <utility>

#include "replay/state/accounts.h"
#include "trace/event_batch.h"

namespace gpumem {
namespace {

bool IsSame(const MomentTotals& a, const MomentTotals& b) {
  return a.values.allocated == b.values.allocated && a.values.reserved == b.values.reserved &&
         a.values.other == b.values.other && a.values.total == b.values.total && a.context == b.context &&
         a.graphs == b.graphs;
}

}  // namespace

AttributionPass::AttributionPass(const Needs& needs, std::vector<uint64_t> moments,
                                 const std::vector<uint64_t>& details)
    : LifePass(needs.lives), needs_(needs), moments_(std::move(moments)), sums_(moments_.size() + 1) {
  for (const uint64_t event : details) details_[event];
}

MomentTotals AttributionPass::TakeTotals(uint32_t slot) const {
  MomentTotals totals;
  if (slot >= state().slots()) return totals;
  totals.values = state().values(slot);
  const ResidualUse& residual = state().residual().device(slot);
  totals.context = residual.context_bytes + residual.module_bytes;
  totals.graphs = state().cuda().GraphBytes(slot);
  return totals;
}

void AttributionPass::TellTotals(uint64_t event, uint32_t slot, bool is_own) {
  std::vector<Told>& told = told_[is_own];
  if (slot >= told.size()) told.resize(slot + 1);
  const MomentTotals now = TakeTotals(slot);
  if (IsSame(now, told[slot].totals) && (told[slot].is_any || !is_own)) return;
  told[slot] = {true, now};
  needs_.request->lives->Totals({event, now_ns_, slot, is_own, now});
}

// The state is the one after the event before `index`.
void AttributionPass::Tell(uint64_t index, const EventBatch* batch, size_t i) {
  const uint64_t event = index == 0 ? 0 : index - 1;
  if (!IsFrozen() || frozen_at() == index) is_exact_ &= TakeTotals(needs_.slot).values.allocated == live_blocks_;
  if (now_slot_ != 0) TellTotals(event, now_slot_, true);
  if (now_slot_ != needs_.slot) TellTotals(event, needs_.slot, false);
  if (batch == nullptr) return;
  now_ns_ = batch->time_ns(i);
  const bool is_on_device = !IsMark(batch->kind(i)) && !IsLabel(batch->kind(i));
  now_slot_ = is_on_device ? SlotOfDevice(batch->device(i)) : 0;
  latest_ns_ = std::max(latest_ns_, now_ns_);
  needs_.request->lives->Happened(index, latest_ns_, batch->stack(i), batch->api(i));
  if (batch->kind(i) == trace::MARK && !IsFrozen()) needs_.request->lives->Marked(index, now_ns_, batch->text(i));
}

void AttributionPass::Before(uint64_t index, const EventBatch* batch, size_t i) {
  LifePass::Before(index, batch, i);
  while (totals_.size() < moments_.size() && moments_[totals_.size()] < index)
    totals_.push_back(TakeTotals(needs_.slot));
  if (needs_.request->lives != nullptr) Tell(index, batch, i);
}

AttributionPass::Running& AttributionPass::RunningOf(uint64_t stack, uint64_t time_ns, uint32_t thread, uint32_t* row) {
  const StackClassification classification = needs_.lives.uses.classifier->Of(stack);
  const uint32_t user_stage = needs_.lives.uses.user_stages->Of(time_ns, thread);
  *row = needs_.lives.uses.modules->RowOf(classification.module);
  if (*row >= peaks_.size()) peaks_.resize(*row + 1);
  Running& running = running_[{*row, classification.stage, user_stage}];
  running.use.module = *row;
  running.use.stage = classification.stage;
  running.use.user_stage = user_stage;
  return running;
}

// The rows of the modules whose calls a stack stands in, each once.
const std::vector<uint32_t>& AttributionPass::RowsOn(uint64_t stack) {
  const auto [it, is_new] = rows_on_.try_emplace(stack);
  if (!is_new) return it->second;
  std::vector<uint32_t> rows;
  for (const uint32_t module : needs_.lives.uses.classifier->ModulePath(stack))
    rows.push_back(needs_.lives.uses.modules->RowOf(module));
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  if (!rows.empty() && rows.back() >= inclusive_.size()) inclusive_.resize(rows.back() + 1);
  return it->second = std::move(rows);
}

void AttributionPass::BlockAllocated(const TorchBlock& block) {
  LifePass::BlockAllocated(block);
  if (IsFrozen()) return;
  if (block.slot == needs_.slot) live_blocks_ += block.size;
  if (!needs_.request->modules || block.slot != needs_.slot) return;
  uint32_t row = 0;
  Running& running = RunningOf(block.stack, block.time_ns, block.thread, &row);
  running.use.allocated_bytes += block.size;
  ++running.use.count;
  const StackClassification classification = needs_.lives.uses.classifier->Of(block.stack);
  if (classification.recomputed) running.use.recomputed_bytes += block.size;
  if (classification.is_loss) running.use.loss_bytes += block.size;
  running.live += block.size;
  running.use.peak_bytes = std::max(running.use.peak_bytes, running.live);
  peaks_[row].live += block.size;
  peaks_[row].most = std::max(peaks_[row].most, peaks_[row].live);
  for (const uint32_t around : RowsOn(block.stack)) {
    inclusive_[around].live += block.size;
    inclusive_[around].most = std::max(inclusive_[around].most, inclusive_[around].live);
  }
}

void AttributionPass::BlockSaved(const TorchBlock& block) {
  if (IsFrozen() || !needs_.request->modules || block.slot != needs_.slot) return;
  uint32_t row = 0;
  Running& running = RunningOf(block.stack, block.time_ns, block.thread, &row);
  running.use.saved_bytes += block.size;
  ++running.use.saved_count;
  running.live_saved += block.size;
  running.use.saved_peak_bytes = std::max(running.use.saved_peak_bytes, running.live_saved);
}

bool AttributionPass::IsWanted(const Life& life) const { return needs_.request->lives != nullptr || IsOfMoments(life); }

bool AttributionPass::IsOfMoments(const Life& life) const {
  if (life.kind == LifeKind::kSegment || life.slot != needs_.slot || life.born >= frozen_at()) return false;
  if (life.kind == LifeKind::kBlock && needs_.request->modules) return true;
  return IsCovered(life.born, std::min(life.end, frozen_at()));
}

void AttributionPass::Lived(const Life& life, const AttributedUse& use) {
  if (needs_.request->lives != nullptr) {
    needs_.request->lives->Lived(life, use);
    if (life.kind == LifeKind::kBlock && life.slot == needs_.slot && life.born < frozen_at()) live_blocks_ -= life.size;
    if (!IsOfMoments(life)) return;
  }
  Add(life.born, std::min(life.end, frozen_at()), use);
  if (life.kind != LifeKind::kBlock) return;
  if (needs_.request->modules) EndRunning(life, use);
}

void AttributionPass::EndRunning(const Life& life, const AttributedUse& use) {
  uint32_t row = 0;
  Running& running = RunningOf(use.stack_id, life.time_ns, life.thread, &row);
  running.live -= life.size;
  peaks_[row].live -= life.size;
  for (const uint32_t around : RowsOn(use.stack_id)) inclusive_[around].live -= life.size;
  if (life.saved) running.live_saved -= life.size;
  if (use.category == Category::kTemporary) {
    running.use.temporary_bytes += life.size;
    ++running.use.temporary_count;
  }
}

// Whether it was alive at any moment.
bool AttributionPass::IsCovered(uint64_t alloc_event, uint64_t end) const {
  const auto first = std::lower_bound(moments_.begin(), moments_.end(), alloc_event);
  return first != moments_.end() && *first < end;
}

void AttributionPass::Add(uint64_t alloc_event, uint64_t end, const AttributedUse& use) {
  const auto first = std::lower_bound(moments_.begin(), moments_.end(), alloc_event);
  const auto last = std::lower_bound(first, moments_.end(), end);
  if (first == last) return;
  const size_t category = Index(use.category);
  sums_[static_cast<size_t>(first - moments_.begin())][category] += static_cast<int64_t>(use.bytes);
  sums_[static_cast<size_t>(last - moments_.begin())][category] -= static_cast<int64_t>(use.bytes);
  for (auto& [event, uses] : details_) {
    if (event >= alloc_event && event < end) uses.Add(use);
  }
}

size_t AttributionPass::PlaceOf(uint64_t event_index) const {
  const auto found = std::lower_bound(moments_.begin(), moments_.end(), event_index);
  return static_cast<size_t>(found - moments_.begin());
}

// Differences become sums, and what no block accounts for follows from the totals.
void AttributionPass::Sum() {
  if (needs_.request->lives != nullptr)
    needs_.request->lives->Ended(events(), end_event(), is_exact_, [this](AttributedUse* use) { Classify(use); });
  for (size_t i = 1; i < sums_.size(); ++i) {
    for (size_t category = 0; category < kCategories; ++category) sums_[i][category] += sums_[i - 1][category];
  }
  sums_.pop_back();
  totals_.resize(moments_.size());
  for (size_t i = 0; i < sums_.size(); ++i) {
    CategoryBytes known{};
    for (size_t category = 0; category < kCategories; ++category)
      known[category] = static_cast<uint64_t>(std::max<int64_t>(sums_[i][category], 0));
    categories_.push_back(WithTotals(known, totals_[i]));
  }
}

const CategoryBytes& AttributionPass::Categories(uint64_t event_index) const {
  static constexpr CategoryBytes kNothing{};
  const size_t place = PlaceOf(event_index);
  return place < categories_.size() ? categories_[place] : kNothing;
}

void AttributionPass::Describe(uint64_t event_index, Moment* moment) const {
  moment->categories = Categories(event_index);
  if (const size_t place = PlaceOf(event_index); place < totals_.size()) moment->values = totals_[place].values;
  const auto detail = details_.find(event_index);
  static const UseSums kNoUses;
  (detail == details_.end() ? kNoUses : detail->second).Fill([this](AttributedUse* use) { Classify(use); }, moment);
}

void AttributionPass::Classify(AttributedUse* use) const {
  const StackClassification classification = needs_.lives.uses.classifier->Of(use->stack_id);
  use->stage = classification.stage;
  use->recomputed = classification.recomputed;
  use->is_loss = classification.is_loss;
}

std::vector<ModuleUse> AttributionPass::ModuleUses() const {
  std::vector<ModuleUse> uses;
  for (const auto& [key, running] : running_) uses.push_back(running.use);
  std::sort(uses.begin(), uses.end(), [](const ModuleUse& a, const ModuleUse& b) {
    return std::make_tuple(b.allocated_bytes, a.module, a.stage, a.user_stage) <
           std::make_tuple(a.allocated_bytes, b.module, b.stage, b.user_stage);
  });
  return uses;
}

std::vector<uint64_t> AttributionPass::MostOf(const std::vector<Peak>& peaks) {
  std::vector<uint64_t> most;
  for (const Peak& peak : peaks) most.push_back(peak.most);
  return most;
}

std::vector<uint64_t> AttributionPass::ModulePeaks() const { return MostOf(peaks_); }
std::vector<uint64_t> AttributionPass::InclusivePeaks() const { return MostOf(inclusive_); }

}  // namespace gpumem
