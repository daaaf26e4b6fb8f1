// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/state/live_state.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "trace/import_info.h"

namespace gpumem {
namespace {

// trace.proto's EventKind.
constexpr uint32_t kContextCreate = 20, kContextDestroy = 21, kModuleLoad = 22, kModuleUnload = 23, kGraphMemory = 26;
constexpr uint32_t kContextGrowth = 43, kLocalMemory = 54;

}  // namespace

bool DriverUseTable::Concerns(uint32_t kind) {
  return (kind >= kContextCreate && kind <= kModuleUnload) || kind == kGraphMemory || kind == kContextGrowth ||
         kind == kLocalMemory || kind == trace::DEVICE_RESET;
}

void DriverUseTable::Count(Sort sort, uint64_t size, int64_t sign, DriverUse* use) {
  const bool is_context = sort == Sort::kContext;
  const uint64_t one = static_cast<uint64_t>(sign);
  if (sort == Sort::kGrowth || sort == Sort::kLocal) {
    (sort == Sort::kGrowth ? use->contexts : use->local) += one * size;
    return;
  }
  (is_context ? use->contexts : use->modules) += one * size;
  (is_context ? use->context_count : use->module_count) += one;
  if (size == 0) (is_context ? use->contexts_not_measured : use->modules_not_measured) += one;
}

void DriverUseTable::Add(Sort sort, uint32_t slot, const EventRow& row, Accounts* accounts) {
  const Key key(slot, sort, row.handle);
  if (const auto old = alive_.find(key); old != alive_.end()) Remove(old, accounts);  // its end was lost
  DriverPiece piece;
  piece.handle = row.handle;
  piece.size = row.size;
  piece.stack = row.stack;
  piece.time_ns = row.time_ns;
  piece.slot = slot;
  piece.thread = row.thread;
  piece.api = row.api;
  piece.layer = static_cast<uint8_t>(row.layer);
  piece.sort = sort;
  piece.thread_bytes = sort == Sort::kLocal ? row.requested_size : 0;
  Count(sort, row.size, 1, &accounts->device(slot).driver);
  const uint32_t place = alive_[key] = pieces_.Add(piece);
  if (observer_ != nullptr) observer_->OnAlloc(Held::kDriver, place);
}

void DriverUseTable::Remove(std::map<Key, uint32_t>::iterator it, Accounts* accounts) {
  const DriverPiece& piece = pieces_[it->second];
  if (observer_ != nullptr) observer_->OnFree(Held::kDriver, it->second);
  Count(piece.sort, piece.size, -1, &accounts->device(piece.slot).driver);
  pieces_.Remove(it->second);
  alive_.erase(it);
}

void DriverUseTable::RemoveDevice(uint32_t slot, Accounts* accounts) {
  for (auto it = alive_.begin(); it != alive_.end();) {
    const auto at = it++;
    if (std::get<0>(at->first) == slot) Remove(at, accounts);
  }
}

void DriverUseTable::Apply(const EventRow& row, Accounts* accounts) {
  const uint32_t slot = SlotOfDevice(row.device);
  const auto remove = [&](Sort sort) {
    if (const auto it = alive_.find(Key(slot, sort, row.handle)); it != alive_.end()) Remove(it, accounts);
  };
  switch (static_cast<uint32_t>(row.kind)) {
    case kContextCreate:
      return Add(Sort::kContext, slot, row, accounts);
    case kContextDestroy:
      remove(Sort::kGrowth);
      remove(Sort::kLocal);
      return remove(Sort::kContext);
    case kContextGrowth: {
      const auto grown = alive_.find(Key(slot, Sort::kGrowth, row.handle));
      if (grown == alive_.end()) return Add(Sort::kGrowth, slot, row, accounts);
      pieces_[grown->second].size += row.size;
      return Count(Sort::kGrowth, row.size, 1, &accounts->device(slot).driver);
    }
    case kLocalMemory: {
      uint64_t& most = accounts->device(slot).driver.local_thread;
      most = std::max(most, row.requested_size);
      return Add(Sort::kLocal, slot, row, accounts);
    }
    case kModuleLoad:
      return Add(Sort::kModule, slot, row, accounts);
    case kModuleUnload:
      return remove(Sort::kModule);
    case kGraphMemory:
      accounts->device(slot).driver.graphs = row.size;
      return;
    case trace::DEVICE_RESET:
      accounts->device(slot).driver.graphs = 0;
      return RemoveDevice(slot, accounts);
    default:
      return;
  }
}

namespace {

constexpr int kOutOfMemory = 2;  // of CUresult and of cudaError_t

}  // namespace

// `place` has left the index already.
void LiveState::Forget(uint32_t place) {
  if (observer_ != nullptr) observer_->OnFree(Held::kBlock, place);
  const TorchBlock& block = blocks_[place];
  accounts_.AddAllocated(block.slot, -static_cast<int64_t>(block.size));
  cuda_.RemoveBlock(block.segment);
  blocks_.Remove(place);
}

void LiveState::RemoveBlock(uint32_t place) {
  block_index_.Remove(blocks_[place].address);
  Forget(place);
}

void LiveState::AddBlock(const EventBatch& batch, size_t i, uint32_t slot) {
  TorchBlock block;
  block.address = batch.address(i);
  if (block.address == 0) return;
  block.size = batch.size(i);
  block.requested = batch.requested_size(i);
  block.stack = batch.stack(i);
  block.time_ns = batch.time_ns(i);
  block.api = batch.api(i);
  block.thread = batch.thread(i);
  block.slot = static_cast<uint16_t>(slot);  // at most kMaxDevices
  if (!pending_frees_.empty()) [[unlikely]]
    pending_frees_.erase(block.address);
  if (const uint32_t old = block_index_.Find(block.address); old != AddressIndex::kNone) EndAssumed(old);
  if (has_gap_) EndEarlier(block.address, block.size);
  const uint64_t reserved = accounts_.devices[slot].values.reserved;
  block.segment = cuda_.TakeAsSegment(block.address, &accounts_);
  if (has_gap_) FindLostSegment(slot, accounts_.devices[slot].values.reserved - reserved);
  cuda_.AddBlock(block.segment, batch.stream(i), batch.handle(i));
  if (block.segment.is_none()) ++accounts_.blocks_without_segment;
  accounts_.AddAllocated(slot, static_cast<int64_t>(block.size));
  const uint32_t place = blocks_.Add(block);
  block_index_.Insert(block.address, place);
  if (observer_ != nullptr) observer_->OnAlloc(Held::kBlock, place);
}

// What was counted as other until now is PyTorch's, whose total has told of it already.
void LiveState::FindLostSegment(uint32_t slot, uint64_t size) {
  DeviceAccount& device = accounts_.devices[slot];
  if (size == 0 || device.lost_reserved <= 0) return;
  const int64_t known = std::min(device.lost_reserved, static_cast<int64_t>(size));
  device.lost_reserved -= known;
  accounts_.AddReserved(slot, -known);
}

// A block lies where another one is now, so it ended without a free that was seen.
void LiveState::EndAssumed(uint32_t place) {
  const TorchBlock block = blocks_[place];
  RemoveBlock(place);
  DeviceAccount& device = accounts_.devices[block.slot];
  if (!has_gap_ || block.time_ns > gap_ns_) {
    ++accounts_.implicit_frees;
  } else if (device.lost_allocated < 0) {  // it ended in the gap, and PyTorch's total says so already
    const int64_t back = std::min(-device.lost_allocated, static_cast<int64_t>(block.size));
    device.lost_allocated += back;
    accounts_.AddAllocated(block.slot, back);
  }
}

// Blocks from before the gap that lie where one begins now, at whatever address of their own.
void LiveState::EndEarlier(uint64_t address, uint64_t size) {
  earlier_.ForEachIn(address, size, [&](uint64_t of_earlier, uint32_t place) {
    accounts_.work.Spend(1);
    if (block_index_.Find(of_earlier) == place && blocks_[place].time_ns <= gap_ns_) EndAssumed(place);
  });
}

void LiveState::FreeUnknown(const EventBatch& batch, size_t i, DeviceAccount* device) {
  ++device->unknown_frees;
  if (device->lost_allocated <= 0) return;
  const int64_t size = std::min(device->lost_allocated, static_cast<int64_t>(batch.size(i)));
  device->lost_allocated -= size;
  Accounts::AddTo(-size, &device->values.allocated);
}

void LiveState::TakeTotals(uint32_t slot, const MeasureValues& totals) {
  DeviceAccount& device = accounts_.device(slot);
  const MeasureValues& ours = device.AtLastReport();
  const int64_t allocated = static_cast<int64_t>(totals.allocated - ours.allocated);
  const int64_t reserved = static_cast<int64_t>(totals.reserved - ours.reserved);
  if (!device.reported_last) device.at_report = totals;
  device.lost_allocated += allocated;
  device.lost_reserved += reserved;
  Accounts::AddTo(allocated, &device.values.allocated);
  accounts_.AddReserved(slot, reserved);
  device.unsure = false;
  device.seen = true;
}

void LiveState::BeginGap(uint64_t gap_ns) {
  has_gap_ = may_lack_frees_ = true;
  gap_ns_ = std::max(gap_ns_, gap_ns);
  earlier_at_ = accounts_.work.events();
  accounts_.work.Spend(blocks_.places());
  earlier_.Clear();
  blocks_.ForEachPlace(
      [this](uint32_t place, const TorchBlock& block) { earlier_.Add(block.address, block.size, place); });
  earlier_.Sort();
}

// Where a recorder drops for long, each batch lies behind further losses: what is alive is listed anew only after as
// many events as it has blocks.
void LiveState::TakeLost(const LostEvents& lost) {
  const bool lost_others = lost.others > lost_.others;
  has_gap_ |= lost_others || lost.allocs > lost_.allocs;
  const bool is_first = lost_.others == 0;
  lost_ = {std::max(lost.allocs, lost_.allocs), std::max(lost.others, lost_.others)};
  if (!lost_others) return;
  may_lack_frees_ = true;
  gap_ns_ = UINT64_MAX;  // any block may end unseen from now on
  if (is_first || accounts_.work.events() - earlier_at_ >= blocks_.places()) BeginGap(UINT64_MAX);
}

// Segments that only PyTorch's total tells of may be counted as other as well, and nothing says when they go.
MeasureValues LiveState::LeastBehindGap(const DeviceAccount& device) const {
  MeasureValues least = device.values;
  if (device.torch_events == 0) return least;
  if (may_lack_frees_) least.other = 0;
  if (device.lost_reserved > 0) least.reserved -= std::min(least.reserved, static_cast<uint64_t>(device.lost_reserved));
  least.total = least.reserved + least.other;
  return least;
}

void LiveState::Bridge(const BatchEntry& entry) {
  if (entry.after_gap) {
    BeginGap(entry.gap_ns);
    for (DeviceAccount& device : accounts_.devices) device.unsure = device.torch_events != 0;
  }
  TakeLost(entry.lost);
  if (!has_gap_ || filter_ != LayerFilter::kAll) return;
  for (const auto& [slot, totals] : entry.totals) TakeTotals(slot, totals);
}

uint32_t LiveState::ApplyTorch(const EventBatch& batch, size_t i) {
  const uint32_t slot = SlotOfDevice(batch.device(i));
  if (!sees_torch_) return slot;
  DeviceAccount& device = accounts_.device(slot);
  device.seen = true;
  const uint32_t kind = batch.kind(i);
  if (kind == trace::ALLOC) {
    AddBlock(batch, i, slot);
  } else if (kind == trace::FREE) {
    const uint32_t place = block_index_.Remove(batch.address(i));
    if (place != AddressIndex::kNone) {
      if (batch.duration_ns(i) == kTorchFreedLater) pending_frees_[batch.address(i)] = blocks_[place];
      if (batch.size(i) != blocks_[place].size && batch.size(i) != 0) ++accounts_.size_mismatches;
      Forget(place);
    } else if (batch.address(i) != 0) {
      FreeUnknown(batch, i, &device);
    }
  } else if (kind == kTorchFreeCompleted) {
    pending_frees_.erase(batch.address(i));
  } else if (device.reported_last) {
    device.at_report = device.values;  // what held before the failure, also where no call of CUDA came between
  }
  // An OOM is a report too: it carries PyTorch's totals.
  ++device.torch_events;
  device.reported_last = true;
  return slot;
}

uint32_t LiveState::ApplyCuda(const EventBatch& batch, size_t i, const EventBatch* following) {
  const EventRow row = batch.Row(i);
  if (row.kind == kTorchReserved) {
    const uint32_t slot = SlotOfDevice(row.device);
    accounts_.AddReserved(slot, static_cast<int64_t>(row.size - accounts_.device(slot).values.reserved));
    return slot;
  }
  for (DeviceAccount& device : accounts_.devices) {
    if (std::exchange(device.reported_last, false)) device.at_report = device.values;
  }
  const bool ends_primary = row.kind == trace::CONTEXT_DESTROY && row.handle == 0;
  if (row.kind == trace::DEVICE_RESET || ends_primary) DropBlocksOfDevice(SlotOfDevice(row.device));
  residual_.Apply(row);
  if (row.kind == trace::ALLOC_FAILED && row.result != kOutOfMemory) ++accounts_.failed_calls;
  if (DriverUseTable::Concerns(row.kind)) driver_use_.Apply(row, &accounts_);
  const uint32_t slot = cuda_.Apply(row, Lookahead(&batch, i, following, &accounts_.work), &accounts_);
  accounts_.device(slot).seen = true;
  if (cuda_.has_lost_ranges()) {
    for (const auto& [start, end] : cuda_.TakeLostRanges()) DropBlocks(start, end);
  }
  return slot;
}

uint64_t LiveState::ApplyAll(const std::vector<LiveSnapshotBatch>& live_snapshot) {
  uint64_t events = 0;
  for (size_t i = 0; i < live_snapshot.size(); ++i) {
    const EventBatch& batch = live_snapshot[i].batch;
    const EventBatch* const following = i + 1 < live_snapshot.size() ? &live_snapshot[i + 1].batch : nullptr;
    for (size_t event = 0; event < batch.count(); ++event) Apply(batch, event, following);
    events += batch.count();
  }
  // A segment without blocks looks like any other allocation.
  for (const LiveSnapshotBatch& part : live_snapshot) {
    for (const uint32_t event : part.torch_segments) {
      if (event < part.batch.count() && sees_torch_) cuda_.TakeAsSegment(part.batch.address(event), &accounts_);
    }
  }
  return events;
}

uint64_t LiveState::Resume(const std::vector<LiveSnapshotBatch>& live_snapshot) {
  if (live_snapshot.empty()) return 0;
  if (live_snapshot.front().keeps_other_memory) {
    const Accounts before = accounts_;
    DropTorch();
    const uint64_t events = ApplyAll(live_snapshot);
    accounts_.Continue(before);
    return events;
  }
  LiveState now(filter_);
  const uint64_t events = now.ApplyAll(live_snapshot);
  now.accounts_.Continue(accounts_);
  *this = std::move(now);
  return events;
}

// What PyTorch's allocator has; nothing of that was freed.
void LiveState::DropTorch() {
  for (uint32_t slot = 0; slot < slots(); ++slot) DropBlocksOfDevice(slot);
  cuda_.DropSegments(&accounts_);
}

void LiveState::DropBlocks(uint64_t start, uint64_t end) {
  std::vector<uint32_t> gone;
  accounts_.work.Spend(blocks_.places());
  blocks_.ForEachPlace([&](uint32_t place, const TorchBlock& block) {
    if (block.address >= start && block.address < end) gone.push_back(place);
  });
  for (const uint32_t place : gone) RemoveBlock(place);
  accounts_.lost_block_frees += gone.size();
}

void LiveState::DropBlocksOfDevice(uint32_t slot) {
  std::vector<uint32_t> gone;
  accounts_.work.Spend(blocks_.places());
  blocks_.ForEachPlace([&](uint32_t place, const TorchBlock& block) {
    if (block.slot == slot) gone.push_back(place);
  });
  for (const uint32_t place : gone) RemoveBlock(place);
}

}  // namespace gpumem
