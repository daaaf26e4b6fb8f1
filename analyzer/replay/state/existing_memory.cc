// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/state/existing_memory.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
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

}  // namespace gpumem
