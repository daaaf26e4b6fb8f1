// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/state/batch_stream.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "replay/state/accounts.h"
#include "shared/event.h"

namespace gpumem {
namespace {

constexpr size_t kMostAddresses = size_t{1} << 22;  // that are watched while the end of the list is looked for
constexpr uint64_t kMostPages = 1u << 16;           // of one segment
constexpr uint64_t kSmallestPage = uint64_t{1} << 16;

}  // namespace

bool ExistingMemory::IsAnnouncedBy(const EventBatch& batch) {
  return batch.count() != 0 && batch.kind(0) == trace::RECORDING_START && batch.handle(0) == format::kStartWithExisting;
}

ExistingMemory::ExistingMemory(const EventBatch& first) : time_ns_(first.count() == 0 ? 0 : first.time_ns(0)) {
  TakeFrom(first, 1);
}

void ExistingMemory::TakeFrom(const EventBatch& batch, size_t from) {
  for (size_t i = from; i < batch.count() && !is_complete_; ++i) {
    const uint32_t kind = batch.kind(i);
    if (kind == trace::EXISTING) {
      ++told_;
      AddThings(batch.Row(i));
    } else if (kind == trace::EXISTING_END) {
      announced_ = batch.handle(i);
      is_known_ = batch.result(i) == trace::EXISTING_KNOWN;
      is_complete_ = true;
    } else if (kind == trace::RECORDING_START || kind == trace::RECORDING_STOP) {
      is_complete_ = true;  // it ended before the list came
    } else {
      Note(batch, i);
    }
  }
  is_complete_ |= blocks_.size() + cuda_.size() + mappings_.size() + things_.size() > kMostAddresses;
}

void ExistingMemory::Note(const EventBatch& batch, size_t i) {
  const uint32_t kind = batch.kind(i);
  const bool allocates = kind == trace::ALLOC || kind == trace::MAP;
  if (!allocates && kind != trace::FREE && kind != trace::UNMAP) return;
  const bool is_mapping = kind == trace::MAP || kind == trace::UNMAP;
  Firsts& firsts = is_mapping ? mappings_ : batch.layer(i) == trace::TORCH ? blocks_ : cuda_;
  firsts.try_emplace(batch.address(i), First{!allocates, batch.size(i), batch.device(i), batch.stream(i)});
}

void ExistingMemory::AddThings(const EventRow& row) {
  if (row.address == 0 || row.size == 0 || things_.size() > kMostAddresses) return;
  if (row.handle == format::kExistingBlock || row.handle == format::kExistingSegment) {
    things_.push_back({row.address, row.size, row.requested_size, row.stream, row.device, row.handle});
    return;
  }
  if (row.handle != format::kExistingMapping) return;
  const uint64_t pages = row.requested_size < kSmallestPage ? 0 : row.size / row.requested_size;
  const uint64_t page = pages == 0 || pages > kMostPages ? row.size : row.requested_size;
  for (uint64_t at = 0; at < row.size; at += page) {
    things_.push_back(
        {row.address + at, std::min(page, row.size - at), 0, row.stream, row.device, format::kExistingMapping});
  }
}

bool ExistingMemory::WasThere(const Thing& thing) const {
  const Firsts& firsts = thing.kind == format::kExistingBlock     ? blocks_
                         : thing.kind == format::kExistingSegment ? cuda_
                                                                  : mappings_;
  const auto first = firsts.find(thing.address);
  return first == firsts.end() || first->second.is_free;
}

// Segments before the blocks that lie in them.
std::vector<ExistingMemory::Thing> ExistingMemory::InUse() const {
  std::vector<Thing> all;
  absl::flat_hash_set<uint64_t> named, mapped;
  for (const Thing& thing : things_) {
    if (thing.kind == format::kExistingBlock) named.insert(thing.address);
    if (thing.kind == format::kExistingMapping) mapped.insert(thing.address);
    if (!WasThere(thing)) continue;
    all.push_back(thing);
    // Freed since, so the snapshot may show what came there next.
    const auto first = thing.kind == format::kExistingBlock ? blocks_.find(thing.address) : blocks_.end();
    if (first == blocks_.end() || first->second.size == 0 || first->second.size == thing.size) continue;
    all.back().size = first->second.size;
    all.back().requested = 0;
  }
  // Gone before the snapshot was taken. What CUDA freed does not say how much it was.
  for (const auto& [address, first] : mappings_) {
    if (first.is_free && !mapped.contains(address) && first.size != 0)
      all.push_back({address, first.size, 0, first.stream, first.device, format::kExistingMapping});
  }
  for (const auto& [address, first] : blocks_) {
    if (first.is_free && !named.contains(address) && first.size != 0)
      all.push_back({address, first.size, 0, first.stream, first.device, format::kExistingBlock});
  }
  std::sort(all.begin(), all.end(), [](const Thing& a, const Thing& b) {
    return std::make_pair(a.kind == format::kExistingBlock, a.address) <
           std::make_pair(b.kind == format::kExistingBlock, b.address);
  });
  return all;
}

LiveSnapshotBatch ExistingMemory::Make() const {
  LiveSnapshotBatch made;
  made.begins = true;
  made.keeps_other_memory = true;
  made.lost = announced_ - std::min(announced_, told_);
  trace::EventBatch events;
  uint64_t before = 0;
  for (const Thing& thing : InUse()) {
    if (thing.kind != format::kExistingBlock) made.torch_segments.push_back(events.count());
    events.set_count(events.count() + 1);
    events.add_time_delta_ns(0);
    events.add_kind(thing.kind == format::kExistingMapping ? trace::MAP : trace::ALLOC);
    events.add_layer(thing.kind == format::kExistingBlock     ? trace::TORCH
                     : thing.kind == format::kExistingSegment ? trace::RUNTIME
                                                              : trace::DRIVER);
    events.add_memory(thing.kind == format::kExistingMapping ? trace::VIRTUAL : trace::DEVICE);
    events.add_device(thing.device);
    events.add_address_delta(static_cast<int64_t>(thing.address - before));
    events.add_size(thing.size);
    events.add_requested_size(thing.requested);
    events.add_stream(thing.stream);
    events.add_api(kExistingApi);
    before = thing.address;
  }
  events.set_first_time_ns(time_ns_);
  if (!made.batch.Decode(events.SerializeAsString()).ok()) made.torch_segments.clear();
  return made;
}

// Totals from before a gap say nothing of what is behind it.
void BatchStream::NoteGap() {
  if (std::exchange(following_entry_.after_gap, true)) return;
  following_entry_.totals.clear();
  if (current_.count() != 0) following_entry_.gap_ns = current_.time_ns(current_.count() - 1);
}

void BatchStream::AddTotals(const trace::Counters& counters) {
  for (const trace::DeviceCounters& device : counters.devices()) {
    if (!device.has_torch_allocated_bytes() || !device.has_torch_reserved_bytes()) continue;
    MeasureValues& totals = following_entry_.totals[SlotOfDevice(device.device())];
    totals.allocated = device.torch_allocated_bytes();
    totals.reserved = device.torch_reserved_bytes();
  }
}

void BatchStream::AddLost(const trace::Losses& losses) {
  lost_.allocs = std::max(lost_.allocs, losses.dropped_allocs());
  lost_.others = std::max(lost_.others, losses.dropped_frees() + losses.unwritten_events());
}

void BatchStream::ReadAhead() {
  has_following_ = false;
  items_.clear();
  following_entry_ = {};
  ReadOn();
}

void BatchStream::ReadOn() {
  if (found_next_section_ || has_following_) return;
  for (;;) {
    Item item;
    item.type = reader_->Next();
    switch (item.type) {
      case ItemType::kEvents:
        if (reader_->after_gap()) NoteGap();
        reader_->SwapBatch(&following_);
        following_place_ = reader_->place();
        has_following_ = true;
        if (ExistingMemory::IsAnnouncedBy(following_)) TakeExisting();
        return;
      case ItemType::kLiveSnapshot:
        if (reader_->live_snapshot().begins) following_entry_ = {};
        following_entry_.live_snapshot.push_back(reader_->live_snapshot());
        continue;
      case ItemType::kHeader:
        found_next_section_ = true;
        following_entry_.lost = lost_;
        return;
      case ItemType::kEndOfStream:
        if (reader_->gap_pending()) NoteGap();
        following_entry_.lost = lost_;
        return;
      case ItemType::kCounters:
        item.counters = reader_->counters();
        if (reader_->gap_pending()) NoteGap();
        AddTotals(item.counters);
        break;
      case ItemType::kLosses:
        item.losses = reader_->losses();
        AddLost(item.losses);
        break;
      case ItemType::kCupti:
        item.cupti = reader_->cupti();
        break;
      case ItemType::kEnd:
        item.end = reader_->end();
        break;
    }
    items_.push_back(std::move(item));
  }
}

// What is recorded after the beginning of a recording held at its beginning.
void BatchStream::TakeExisting() {
  ExistingMemory existing(following_);
  if (!existing.is_complete()) {
    reader_->LookAhead([&existing](const EventBatch& batch) {
      existing.Take(batch);
      return !existing.is_complete();
    });
  }
  lacks_existing_ |= !existing.is_complete();
  if (existing.is_known()) following_entry_.live_snapshot = {existing.Make()};
}

bool BatchStream::Advance() {
  if (!has_following_) return false;
  std::swap(current_, following_);
  std::swap(entry_, following_entry_);
  current_place_ = following_place_;
  ReadAhead();
  entry_.lost = lost_;
  return true;
}

}  // namespace gpumem
