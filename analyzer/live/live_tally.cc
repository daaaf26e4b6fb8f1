// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/live_tally.h"

#include <algorithm>
#include <utility>

#include "replay/losses.h"

namespace gpumem {
namespace {

AttributionRequest RequestOf(const LiveFocus& focus) {
  AttributionRequest request;
  request.device = DeviceOfSlot(focus.slot);
  request.measure = focus.measure;
  request.steps = true;
  return request;
}

}  // namespace

LiveTally::LiveTally(const LiveFocus& focus, const LabelReplay* replay, const StackTable* names,
                     StackClassifier* classifier)
    : focus_(focus),
      replay_(replay),
      names_(names),
      user_stages_(&marks_, names),
      request_(RequestOf(focus)),
      index_(request_, focus.slot, replay, names, classifier, &user_stages_) {}

void LiveTally::BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) {
  index_.BlockEnded(block, label, end, alive);
}

void LiveTally::Before(uint64_t index, const EventBatch* batch, size_t i) {
  const uint32_t kind = batch->kind(i);
  if (!std::exchange(has_origin_, true)) origin_ns_ = now_ns_ = batch->time_ns(i);
  now_ns_ = std::max(now_ns_, batch->time_ns(i));
  ++events_;
  if (!are_settled_) {
    TakeReserved();
    are_settled_ = batch->time_ns(i) > statements_ns_;
  }
  if (IsMark(kind)) {
    const bool is_end = kind == trace::MARK && batch->handle(i) == kProgramEndMark;
    if (is_end && on_program_end_) std::exchange(on_program_end_, nullptr)();
    if (!is_end) marks_.Add(*batch, i, *names_);
  }
  if (kind == trace::ALLOC_FAILED) {
    const bool is_memory = batch->layer(i) != trace::TORCH && batch->result(i) == 2;
    torch_failures_ += batch->layer(i) == trace::TORCH ? 1 : 0;
    cuda_failures_ += is_memory ? 1 : 0;
  }
  index_.Before(index, batch, i);
}

void LiveTally::Applied(uint64_t index, uint32_t slot, const EventBatch&, size_t) {
  const LiveState& state = replay_->state();
  if (slot >= state.slots()) return;
  last_index_ = index;
  ObserveState(state, slot, now_ns_, index, &SeriesOf(slot));
}

DeviceSeries& LiveTally::SeriesOf(uint32_t slot) {
  if (slot >= series_.size()) series_.resize(slot + 1);
  if (!series_[slot]) series_[slot].emplace(origin_ns_, AnalyzeOptions());
  return *series_[slot];
}

const DeviceStatement* LiveTally::statement(uint32_t slot) const {
  const auto found = statements_.find(slot);
  return found == statements_.end() ? nullptr : &found->second;
}

void LiveTally::TakeReserved() {
  for (auto& [slot, said] : statements_) {
    if (said.time_ns == statements_ns_ && slot < replay_->state().slots())
      said.reserved = replay_->state().values(slot).reserved;
  }
}

void LiveTally::TakeCounters(const trace::Counters& counters) {
  for (const trace::DeviceCounters& device : counters.devices()) {
    const uint32_t slot = SlotOfDevice(device.device());
    const LiveState& state = replay_->state();
    if (slot < state.slots() && state.accounts().devices[slot].torch_events != 0) {
      SeriesOf(slot).TakeStated(now_ns_, last_index_, device.torch_allocated_bytes(), device.torch_reserved_bytes(),
                                state.IsSure(slot));
    }
    if (!device.has_used_bytes() && !device.has_own_bytes()) continue;
    DeviceStatement& said = statements_[slot];
    said = {};
    if (device.has_used_bytes()) said.used = device.used_bytes();
    if (device.has_own_bytes()) said.own = device.own_bytes();
    said.total = device.total_bytes();
    for (const trace::DeviceProcess& other : device.others()) said.others += other.used_bytes();
    said.time_ns = counters.time_ns();
  }
  if (counters.devices_size() != 0) statements_ns_ = counters.time_ns();
  are_settled_ = false;
  TakeReserved();
  if (has_origin_) now_ns_ = std::max(now_ns_, counters.time_ns());
}

void LiveTally::TakeItems(const std::vector<BatchStream::Item>& items) {
  for (const BatchStream::Item& item : items) {
    if (item.type == ItemType::kEnd) complete_ = true;
    if (item.type == ItemType::kCounters) TakeCounters(item.counters);
    if (item.type == ItemType::kLosses) TakeLosses(item.losses, &losses_);
    if (item.type == ItemType::kCupti) TakeCuptiLosses(item.cupti, &losses_);
  }
}

}  // namespace gpumem
