// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/first_pass.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gpumem {
namespace {

constexpr size_t kMaxDisagreements = 3;
constexpr uint64_t kEventsPerProgress = 1u << 18;

std::vector<UnseenCalls> ToUnseen(const trace::Losses& losses) {
  constexpr size_t kMaxUnseen = 64, kMaxFunctions = 64;
  std::vector<UnseenCalls> all;
  for (const trace::Unseen& unseen : losses.unseen()) {
    if (all.size() == kMaxUnseen) break;
    const int cause = static_cast<int>(unseen.cause());
    UnseenCalls& calls = all.emplace_back();
    if (cause >= 0 && cause <= trace::UNSEEN_SECOND_DRIVER) calls.cause = static_cast<UnseenCalls::Cause>(cause);
    calls.object = unseen.object();
    calls.function_count = unseen.function_count();
    for (const std::string& function : unseen.functions()) {
      if (calls.functions.size() < kMaxFunctions) calls.functions.push_back(function);
    }
  }
  return all;
}

uint64_t SaturatingAdd(uint64_t a, uint64_t b) { return a + b < a ? UINT64_MAX : a + b; }

}  // namespace

FirstPass::FirstPass(const AnalyzeOptions& options, TraceReader* reader)
    : options_(options), reader_(reader), state_(options.layer), ooms_(&state_, &reader->stacks()) {}

void FirstPass::SetOrigin(const EventBatch& batch) {
  if (batch.count() == 0 || std::exchange(has_origin_, true)) return;
  origin_ns_ = clock_ns_ = batch.time_ns(0);
  from_ns_ = SaturatingAdd(origin_ns_, options_.from_ns);
  to_ns_ = SaturatingAdd(origin_ns_, options_.to_ns);
}

void FirstPass::Run(const ProgressCallback& progress) {
  BatchStream stream(reader_);
  TakeItems(stream.items());
  uint64_t next_progress = kEventsPerProgress;
  while (stream.Advance()) {
    SetOrigin(stream.current());
    Resume(stream.entry().live_snapshot);
    state_.Bridge(stream.entry());
    checkpoints_.Offer(stream.place(), index_, state_);
    ReplayBatch(stream.current(), stream.following());
    TakeItems(stream.items());
    if (progress && index_ >= next_progress) {
      next_progress = index_ + kEventsPerProgress;
      progress(reader_->position(), reader_->file_bytes());
    }
  }
  state_.Bridge(stream.entry_of_end());
  found_next_section_ = stream.found_next_section();
  end_ns_ = clock_ns_;
  counters_.Settle({UINT64_MAX, last_change_ns_, UINT64_MAX}, state_.accounts());
  counters_.Finish();
  marks_.Finish(origin_ns_, end_ns_);
  if (!is_open_ && has_origin_) OpenWindow();
  for (std::optional<DeviceSeries>& series : series_) {
    if (series) series->Finish(window_end_ns(), index_);
  }
}

// What was alive counts as events before those that follow.
void FirstPass::Resume(const std::vector<LiveSnapshotBatch>& live_snapshot) {
  if (live_snapshot.empty()) return;
  resumed_at_start_ |= index_ == 0;
  resumed_later_ += index_ != 0 ? 1 : 0;
  live_snapshot_lost_ = live_snapshot.back().lost;
  index_ += state_.Resume(live_snapshot);
}

DeviceSeries& FirstPass::SeriesOf(uint32_t slot) {
  if (slot >= series_.size()) series_.resize(slot + 1);
  if (!series_[slot]) series_[slot].emplace(from_ns_, options_);
  return *series_[slot];
}

// What holds when the window opens counts inside it.
void FirstPass::OpenWindow() {
  is_open_ = true;
  if (index_ == 0) return;
  last_before_window_ = index_ - 1;
  for (uint32_t slot = 0; slot < state_.slots(); ++slot) {
    if (state_.accounts().devices[slot].seen)
      SeriesOf(slot).Observe(from_ns_, last_before_window_, state_.values(slot));
  }
}

// The state is the one before event `i`.
void FirstPass::SettleSamples(const EventBatch& batch, size_t i) {
  CounterLog::Instant instant{batch.time_ns(i), last_change_ns_, UINT64_MAX};
  if (batch.layer(i) != trace::TORCH) {
    instant.next_change_ns = batch.time_ns(i) - std::min<uint64_t>(batch.time_ns(i), batch.duration_ns(i));
  }
  counters_.Settle(instant, state_.accounts());
}

void FirstPass::ReplayBatch(const EventBatch& batch, const EventBatch* following) {
  for (size_t i = 0; i < batch.count(); ++i, ++index_) {
    const uint32_t kind = batch.kind(i);
    ++counts_[std::min(batch.layer(i), 3u)][std::min(kind, 63u)];
    if (batch.time_ns(i) > counters_.next_ns()) [[unlikely]]
      SettleSamples(batch, i);
    clock_ns_ = std::max(clock_ns_, batch.time_ns(i));
    if (kind == trace::MARK && batch.handle(i) == kProgramEndMark) [[unlikely]] {
      program_end_event_ = index_ == 0 ? kNoEvent : index_ - 1;
      program_end_ns_ = clock_ns_;
      continue;
    }
    if (kind == trace::TORCH_LIMIT) [[unlikely]] {
      torch_limits_[batch.device(i)] = batch.size(i);
      continue;
    }
    if (IsMark(kind)) [[unlikely]] {
      marks_.Add(batch, i, reader_->stacks());
      continue;
    }
    if (clock_ns_ > to_ns_ || IsLabel(kind)) continue;
    if (batch.layer(i) != trace::TORCH) last_change_ns_ = clock_ns_;
    if (!is_open_ && clock_ns_ >= from_ns_) OpenWindow();
    last_in_window_ = index_;
    const uint32_t slot = state_.Apply(batch, i, following);
    if (kind == trace::ALLOC_FAILED || ooms_.has_pending()) [[unlikely]]
      ooms_.Observe(batch.Row(i), index_);
    if (!is_open_ || IsUnsure(slot)) continue;
    if (slot < series_.size() && series_[slot]) [[likely]] {
      series_[slot]->Observe(clock_ns_, index_, state_.values(slot));
    } else if (slot < state_.slots()) {
      SeriesOf(slot).Observe(clock_ns_, index_, state_.values(slot));
    }
    if (index_ >= fragmentation_.next_event_index()) fragmentation_.Sample(state_, clock_ns_, index_);
  }
}

void FirstPass::TakeItems(const std::vector<BatchStream::Item>& items) {
  for (const BatchStream::Item& item : items) {
    if (item.type == ItemType::kEnd) {
      complete_ = true;
      snapshot_ = item.end.snapshot();
    } else if (item.type == ItemType::kCounters) {
      if (clock_ns_ <= to_ns_) Compare(item.counters);
      counters_.Offer(item.counters);
    } else if (item.type == ItemType::kLosses) {
      // Counted from the start each time: the last one holds.
      losses_.dropped_allocs = item.losses.dropped_allocs();
      losses_.dropped_frees = item.losses.dropped_frees();
      losses_.dropped_definitions = item.losses.dropped_definitions();
      losses_.unwritten_events = item.losses.unwritten_events();
      losses_.truncated_stacks = item.losses.truncated_stacks();
      losses_.unread_python_frames = item.losses.unread_python_frames();
      recovered_events_ = item.losses.recovered_events();
      losses_.write_error = item.losses.write_error();
      losses_.unseen = ToUnseen(item.losses);
    }
  }
}

// The replay against PyTorch's own totals, as of the last report of the device.
void FirstPass::Compare(const trace::Counters& counters) {
  if (options_.layer != LayerFilter::kAll || state_.has_gap()) return;
  for (const trace::DeviceCounters& device : counters.devices()) {
    const uint32_t slot = SlotOfDevice(device.device());
    if (slot >= state_.slots() || state_.accounts().devices[slot].torch_events == 0) continue;
    const MeasureValues& ours = state_.accounts().devices[slot].AtLastReport();
    const bool allocated_differs =
        device.has_torch_allocated_bytes() && device.torch_allocated_bytes() != ours.allocated;
    const bool reserved_differs = device.has_torch_reserved_bytes() && device.torch_reserved_bytes() != ours.reserved;
    ++compared_;
    if ((!allocated_differs && !reserved_differs) || disagreements_.size() >= kMaxDisagreements) continue;
    disagreements_.push_back(
        absl::StrCat("device ", device.device(), ": the replay disagrees with PyTorch's own totals at event ", index_,
                     ": allocated ", ours.allocated, " here, ", device.torch_allocated_bytes(), " there; reserved ",
                     ours.reserved, " here, ", device.torch_reserved_bytes(), " there"));
  }
}

EventCounts FirstPass::CountEvents() const {
  EventCounts counts;
  for (size_t layer = 0; layer < counts_.size(); ++layer) {
    uint64_t calls = 0;
    for (size_t kind = 0; kind < counts_[layer].size(); ++kind) {
      if (counts_[layer][kind] == 0) continue;
      // A correction belongs to the call that its free stands for.
      if (kind != trace::FREE_FAILED) calls += counts_[layer][kind];
      const std::string& name = trace::EventKind_Name(static_cast<trace::EventKind>(kind));
      counts.by_kind[name.empty() ? absl::StrCat("KIND_", kind) : name] += counts_[layer][kind];
    }
    if (layer == trace::DRIVER) counts.driver = calls;
    if (layer == trace::RUNTIME) counts.runtime = calls;
    if (layer == trace::TORCH) counts.torch = calls;
  }
  return counts;
}

}  // namespace gpumem
