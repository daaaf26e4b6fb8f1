// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/first_pass.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "replay/crosscheck/evidence.h"
#include "replay/losses.h"

namespace gpumem {
namespace {

constexpr size_t kMaxDisagreements = 3;
constexpr size_t kMostCommunicators = 4096;

uint64_t SaturatingAdd(uint64_t a, uint64_t b) { return a + b < a ? UINT64_MAX : a + b; }

}  // namespace

FirstPass::FirstPass(const AnalyzeOptions& options, TraceReader* reader)
    : options_(options), reader_(reader), replay_(reader, options.layer), ooms_(&replay_.state(), &reader->stacks()) {}

void FirstPass::SetOrigin(const EventBatch& batch) {
  if (batch.count() == 0 || std::exchange(has_origin_, true)) return;
  origin_ns_ = clock_ns_ = batch.time_ns(0);
  from_ns_ = SaturatingAdd(origin_ns_, options_.from_ns);
  to_ns_ = SaturatingAdd(origin_ns_, options_.to_ns);
}

void FirstPass::Run(const ProgressCallback& progress) {
  replay_.Run(this, progress);
  replay_.Close();
  found_next_section_ = replay_.stream().found_next_section();
  end_ns_ = clock_ns_;
  counters_.Settle({UINT64_MAX, last_change_ns_, UINT64_MAX}, state().accounts());
  counters_.Finish();
  marks_.Finish(origin_ns_, end_ns_);
  if (!is_open_ && has_origin_) OpenWindow();
  for (std::optional<DeviceSeries>& series : series_) {
    if (series) series->Finish(window_end_ns(), replay_.index());
  }
}

void FirstPass::BeginBatch() {
  SetOrigin(replay_.stream().current());
  checkpoints_.Offer(replay_.stream().place(), replay_.index(), state());
}

void FirstPass::AfterSnapshot(const std::vector<LiveSnapshotBatch>& live_snapshot) {
  if (live_snapshot.back().keeps_other_memory) {
    existing_.Took(live_snapshot.back());
  } else {
    live_snapshot_lost_ = live_snapshot.back().lost;
  }
}

DeviceSeries& FirstPass::SeriesOf(uint32_t slot) {
  if (slot >= series_.size()) series_.resize(slot + 1);
  if (!series_[slot]) series_[slot].emplace(from_ns_, options_);
  return *series_[slot];
}

// The totals at the window's start count as its first values.
void FirstPass::OpenWindow() {
  is_open_ = true;
  if (replay_.index() == 0) return;
  last_before_window_ = replay_.index() - 1;
  for (uint32_t slot = 0; slot < state().slots(); ++slot) {
    if (state().accounts().devices[slot].seen)
      ObserveState(state(), slot, from_ns_, last_before_window_, &SeriesOf(slot));
  }
}

// The state is the one before event `i`.
void FirstPass::SettleSamples(const EventBatch& batch, size_t i) {
  CounterLog::Instant instant{batch.time_ns(i), last_change_ns_, UINT64_MAX};
  if (batch.layer(i) != trace::TORCH) {
    instant.next_change_ns = batch.time_ns(i) - std::min<uint64_t>(batch.time_ns(i), batch.duration_ns(i));
  }
  counters_.Settle(instant, state().accounts());
}

// Its second event may know more: of a split, its ranks.
void FirstPass::TakeCommunicator(const EventRow& row) {
  const auto number = static_cast<uint32_t>(row.handle);
  if (communicators_.size() >= kMostCommunicators && communicators_.count(number) == 0) return;
  Communicator& made = communicators_[number];
  made.number = number;
  if (made.stack_id == 0) made.stack_id = row.stack;
  if (row.requested_size != 0) made.ranks = static_cast<uint32_t>(std::min<uint64_t>(row.requested_size, UINT32_MAX));
  if (row.stream != 0 && row.stream <= UINT32_MAX) made.rank = static_cast<int64_t>(row.stream) - 1;
}

std::vector<Communicator> FirstPass::Communicators() const {
  std::vector<Communicator> all;
  for (const auto& [number, made] : communicators_) all.push_back(made);
  return all;
}

bool FirstPass::Take(const EventBatch& batch, size_t i, const EventBatch* following) {
  const uint64_t index = replay_.index();
  const uint32_t kind = batch.kind(i);
  ++counts_[std::min(batch.layer(i), 3u)][std::min(kind, 63u)];
  if (batch.time_ns(i) > counters_.next_ns()) [[unlikely]]
    SettleSamples(batch, i);
  clock_ns_ = std::max(clock_ns_, batch.time_ns(i));
  if (kind == trace::MARK && batch.handle(i) == kProgramEndMark) [[unlikely]] {
    program_end_event_ = index == 0 ? kNoEvent : index - 1;
    program_end_ns_ = clock_ns_;
    return true;
  }
  if (kind == trace::TORCH_LIMIT) [[unlikely]] {
    torch_limits_[batch.device(i)] = batch.size(i);
    return true;
  }
  if (kind == trace::ALLOCATOR_USE) [[unlikely]] {
    streams_.TakeUse(batch, i);
    return true;
  }
  if (kind == trace::COMMUNICATOR) [[unlikely]]
    TakeCommunicator(batch.Row(i));
  if (IsExisting(kind)) [[unlikely]] {
    if (kind == trace::EXISTING_END) existing_.End(batch.result(i));
    return true;
  }
  if (IsMark(kind)) [[unlikely]] {
    if (kind == trace::RECORDING_START) existing_.Start(batch.time_ns(i));
    marks_.Add(batch, i, reader_->stacks());
    return true;
  }
  if (clock_ns_ > to_ns_ || IsLabel(kind)) return true;
  if (batch.layer(i) != trace::TORCH) last_change_ns_ = clock_ns_;
  if (!is_open_ && clock_ns_ >= from_ns_) OpenWindow();
  last_in_window_ = index;
  const uint32_t slot = replay_.state().Apply(batch, i, following);
  if (kind == trace::ALLOC) {
    if (batch.layer(i) != trace::TORCH) {
      ratchets_.TakeCuda(batch, i);
    } else {
      ratchets_.TakeBlock(batch, i);
      if ((batch.stream(i) | batch.handle(i)) != 0) streams_.TakeBlock(batch, i, state());
    }
  }
  if (kind == trace::ALLOC_FAILED || ooms_.has_pending()) [[unlikely]]
    ooms_.Observe(batch.Row(i), index);
  Measure(slot);
  return true;
}

// What the device holds behind event replay_.index().
void FirstPass::Measure(uint32_t slot) {
  if (!is_open_) return;
  const uint64_t index = replay_.index();
  if (slot < series_.size() && series_[slot]) [[likely]] {
    ObserveState(state(), slot, clock_ns_, index, &*series_[slot]);
  } else if (slot < state().slots()) {
    ObserveState(state(), slot, clock_ns_, index, &SeriesOf(slot));
  }
  if (index >= fragmentation_.next_event_index()) fragmentation_.Sample(state(), clock_ns_, index);
}

void FirstPass::TakeItems(const std::vector<BatchStream::Item>& items) {
  for (const BatchStream::Item& item : items) {
    if (item.type == ItemType::kEnd) {
      complete_ = true;
      snapshot_ = item.end.snapshot();
    } else if (item.type == ItemType::kCounters) {
      // Behind the window the state stands still, and a sample of then would be compared with it.
      if (has_origin_ && item.counters.time_ns() > to_ns_) continue;
      if (clock_ns_ <= to_ns_) {
        Compare(item.counters);
        TakeStated(item.counters);
      }
      counters_.Offer(item.counters);
    } else if (item.type == ItemType::kCupti) {
      MergeCupti(item.cupti, &cupti_said_);
      const uint64_t records = cupti_.records + static_cast<uint64_t>(item.cupti.records_size());
      cupti_ = ToInfo(cupti_said_);
      cupti_.records = records;
      TakeCuptiLosses(item.cupti, &losses_);
    } else if (item.type == ItemType::kLosses) {
      TakeLosses(item.losses, &losses_);
      recovered_events_ = item.losses.recovered_events();
    }
  }
}

// The replay against PyTorch's own totals, as of the last report of the device.
void FirstPass::Compare(const trace::Counters& counters) {
  if (options_.layer != LayerFilter::kAll || state().has_gap()) return;
  for (const trace::DeviceCounters& device : counters.devices()) {
    const uint32_t slot = SlotOfDevice(device.device());
    if (slot >= state().slots() || state().accounts().devices[slot].torch_events == 0) continue;
    const MeasureValues& ours = state().accounts().devices[slot].AtLastReport();
    const bool allocated_differs =
        device.has_torch_allocated_bytes() && device.torch_allocated_bytes() != ours.allocated;
    const bool reserved_differs = device.has_torch_reserved_bytes() && device.torch_reserved_bytes() != ours.reserved;
    ++compared_;
    if ((!allocated_differs && !reserved_differs) || disagreements_.size() >= kMaxDisagreements) continue;
    disagreements_.push_back(
        absl::StrCat("device ", device.device(), ": the replay disagrees with PyTorch's own totals at event ",
                     replay_.index(), ": allocated ", ours.allocated, " here, ", device.torch_allocated_bytes(),
                     " there; reserved ", ours.reserved, " here, ", device.torch_reserved_bytes(), " there"));
  }
}

// A peak is never below what PyTorch itself says that it holds.
void FirstPass::TakeStated(const trace::Counters& counters) {
  if (options_.layer != LayerFilter::kAll || !is_open_ || last_in_window_ == kNoEvent) return;
  for (const trace::DeviceCounters& device : counters.devices()) {
    const uint32_t slot = SlotOfDevice(device.device());
    if (slot >= state().slots() || state().accounts().devices[slot].torch_events == 0) continue;
    SeriesOf(slot).TakeStated(clock_ns_, last_in_window_, device.torch_allocated_bytes(), device.torch_reserved_bytes(),
                              state().IsSure(slot));
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
