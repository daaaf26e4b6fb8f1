// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Which allocation or reservation lies around an address, and what the thread's next events make of it; and memory that
// more than one thing holds or that goes with something else: pools, graphs, sparse arrays, multicast objects, external
// buffers, contexts.

#include <algorithm>

#include "replay/state/cuda_memory.h"

namespace gpumem {

SegmentRef CudaMemory::FindRange(uint64_t address) const {
  auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin()) return {};
  --it;
  return address < it->second.end ? it->second.ref : SegmentRef{};
}

void CudaMemory::AddRange(uint64_t start, uint64_t size, SegmentRef ref) {
  const uint64_t end = start + size < start ? UINT64_MAX : start + size;
  ranges_[start] = {end, ref};
}

void CudaMemory::RemoveRange(uint64_t start) {
  ranges_.erase(start);
  ++range_generation_;
}

// Whatever is recorded in [start, end) must have gone: its free was lost.
void CudaMemory::RemoveOverlaps(uint64_t start, uint64_t end, Accounts* accounts) {
  if (end < start) end = UINT64_MAX;
  for (;;) {
    auto it = ranges_.lower_bound(end);
    if (it == ranges_.begin()) return;
    --it;
    if (it->second.end <= start) return;
    ++accounts->implicit_frees;
    const SegmentRef ref = it->second.ref;
    if (ref.is_reservation()) {
      RemoveReservation(ref.place(), accounts);
    } else {
      Remove(ref.place(), kPointers, accounts);
    }
  }
}

void CudaMemory::DropSegments(Accounts* accounts) {
  std::vector<SegmentRef> gone;
  accounts->work.Spend(ranges_.size());
  for (const auto& [start, range] : ranges_) {
    const bool is_torch =
        range.ref.is_reservation() ? reservations_[range.ref.place()].torch : allocations_[range.ref.place()].torch;
    if (is_torch) gone.push_back(range.ref);
  }
  for (const SegmentRef ref : gone) {
    if (ref.is_reservation()) {
      RemoveReservation(ref.place(), accounts);
    } else {
      Remove(ref.place(), kPointers, accounts);
    }
  }
}

SegmentRef CudaMemory::TakeAsSegment(uint64_t address, Accounts* accounts) {
  CachedRange& cached = range_cache_[(address >> kCacheGranularityBits) % kCachedRanges];
  if (cached.generation == range_generation_ && address >= cached.start && address < cached.end) return cached.ref;
  auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin()) return {};
  --it;
  if (address >= it->second.end) return {};
  const SegmentRef ref = it->second.ref;
  if (ref.is_reservation()) {
    if (!reservations_[ref.place()].torch) MakeTorch(ref.place(), accounts);
  } else if (CudaAllocation& allocation = allocations_[ref.place()]; !allocation.torch) {
    Count(allocation, -1, accounts);
    allocation.torch = true;
    allocation.on_device = true;  // also where it was made as managed memory: PyTorch counts it
    Count(allocation, 1, accounts);
  }
  cached = {it->first, it->second.end, range_generation_, ref};
  return ref;
}

bool CudaMemory::BecomesSegment(uint32_t thread, uint64_t start, uint64_t size, const Lookahead& ahead) const {
  if (!SeesTorch()) return false;
  bool becomes = false;
  ahead.ForThread(thread, [&](const EventBatch& batch, size_t i) {
    if (batch.layer(i) == trace::TORCH) {
      becomes = batch.kind(i) == trace::ALLOC && batch.address(i) - start < size;
      return false;
    }
    // What the allocator does between the first call and the block.
    const uint32_t kind = batch.kind(i);
    return kind == trace::MAP || kind == trace::PHYSICAL_CREATE || kind == trace::ADDRESS_RESERVE;
  });
  return becomes;
}

bool CudaMemory::HandleBecomesSegment(const EventRow& row, const Lookahead& ahead) const {
  if (!SeesTorch()) return false;
  bool becomes = false;
  uint64_t start = 0;
  uint64_t size = 0;
  ahead.ForThread(row.thread, [&](const EventBatch& batch, size_t i) {
    const uint32_t kind = batch.kind(i);
    if (batch.layer(i) == trace::TORCH) {
      becomes = kind == trace::ALLOC && batch.address(i) - start < size;
      return false;
    }
    if (kind == trace::MAP && batch.handle(i) == row.handle && size == 0) {
      start = batch.address(i);
      size = batch.size(i);
      const SegmentRef around = FindRange(start);
      if (around.is_reservation()) {
        const Reservation& reservation = reservations_[around.place()];
        becomes = reservation.torch;
        start = reservation.address;
        size = reservation.size;
      }
    }
    if (kind == trace::PHYSICAL_RELEASE && batch.handle(i) == row.handle && size == 0) return false;
    return !becomes && (kind == trace::MAP || kind == trace::PHYSICAL_CREATE || kind == trace::ADDRESS_RESERVE ||
                        kind == trace::PHYSICAL_RELEASE);
  });
  return becomes;
}

bool CudaMemory::ReleaseFollows(uint32_t thread, uint64_t handle, const Lookahead& ahead) {
  bool follows = false;
  ahead.ForThread(thread, [&](const EventBatch& batch, size_t i) {
    follows = batch.kind(i) == trace::PHYSICAL_RELEASE && batch.handle(i) == handle;
    return !follows && (batch.kind(i) == trace::PHYSICAL_RELEASE || batch.kind(i) == trace::UNMAP);
  });
  return follows;
}

bool CudaMemory::CorrectionFollows(const EventRow& row, const Lookahead& ahead) {
  bool follows = false;
  ahead.ForThread(row.thread, [&](const EventBatch& batch, size_t i) {
    follows = batch.kind(i) == trace::FREE_FAILED && batch.address(i) == row.address && batch.handle(i) == row.handle;
    return false;
  });
  return follows;
}

// Memory that more than one thing holds or that goes with something else: pools, graphs, sparse arrays, multicast
// objects, external buffers, contexts.

// A pool's memory is where the pool is, whatever device was current.
void CudaMemory::PlaceInPool(const EventRow& row, CudaAllocation* allocation) const {
  const auto it = pools_.find(row.handle);
  if (it == pools_.end()) return;
  allocation->slot = it->second.slot;
  allocation->memory = it->second.memory;
}

uint32_t CudaMemory::SetGraphMemory(const EventRow& row, Accounts* accounts) {
  CudaAllocation graphs;
  graphs.slot = SlotOfDevice(row.device);
  graphs.address = graphs.slot + 1;
  graphs.size = row.size;
  graphs.stack = row.stack;
  graphs.time_ns = row.time_ns;
  graphs.api = row.api;
  graphs.layer = static_cast<uint8_t>(row.layer);
  graphs.memory = trace::STREAM_ORDERED;
  graphs.on_device = true;
  graphs.counted = Matches(graphs.layer);
  const uint32_t old = index_[kGraphs].Find(graphs.address);
  if (old != AddressIndex::kNone) Remove(old, kGraphs, accounts);
  if (graphs.size != 0) Insert(graphs, kGraphs, accounts);
  return graphs.slot;
}

uint64_t CudaMemory::GraphBytes(uint32_t slot) const {
  const uint32_t graphs = index_[kGraphs].Find(uint64_t{slot} + 1);
  if (graphs == AddressIndex::kNone || !InOther(allocations_[graphs])) return 0;
  return allocations_[graphs].size;
}

// A buffer of an external object goes by an ordinary free.
bool CudaMemory::EndExternalBuffer(uint64_t address, Accounts* accounts) {
  const auto it = mappings_.find(address);
  if (it == mappings_.end() || physicals_[it->second.physical].memory != trace::EXTERNAL) return false;
  EraseMapping(it, accounts);
  return true;
}

void CudaMemory::Keep(const Hold& hold) { ++physicals_[hold.physical].holds; }

void CudaMemory::LetGo(std::vector<Hold>* holds, uint64_t owner, uint32_t slot, uint64_t bytes, Accounts* accounts) {
  accounts->work.Spend(holds->size());
  for (size_t i = 0; i < holds->size() && bytes > 0;) {
    const Hold hold = (*holds)[i];
    if (hold.owner != owner || (slot != kAnySlot && physicals_[hold.physical].slot != slot)) {
      ++i;
      continue;
    }
    holds->erase(holds->begin() + static_cast<std::ptrdiff_t>(i));
    bytes -= std::min(bytes, std::max<uint64_t>(hold.size, 1));
    --physicals_[hold.physical].holds;
    DropIfUnused(hold.physical, accounts);
  }
}

uint32_t CudaMemory::Bind(const EventRow& row, Accounts* accounts) {
  uint32_t place = UINT32_MAX;
  if (row.memory == trace::PHYSICAL) {
    if (const auto it = handle_index_.find(row.address); it != handle_index_.end()) place = it->second;
  } else {
    auto it = mappings_.upper_bound(row.address);
    if (it != mappings_.begin() && row.address - (--it)->first < it->second.size) place = it->second.physical;
  }
  if (place == UINT32_MAX) return SlotOfDevice(row.device);  // memory of before the trace
  multicast_holds_.push_back({row.handle, row.size, place});
  Keep(multicast_holds_.back());
  accounts->device(physicals_[place].slot).seen = true;
  return physicals_[place].slot;
}

uint32_t CudaMemory::Unbind(const EventRow& row, const Lookahead& ahead, Accounts* accounts) {
  const uint32_t slot = SlotOfDevice(row.device);
  if (!CorrectionFollows(row, ahead)) LetGo(&multicast_holds_, row.handle, slot, row.size, accounts);
  return slot;
}

uint32_t CudaMemory::MapArray(const EventRow& row, Accounts* accounts) {
  const uint32_t slot = SlotOfDevice(row.device);
  if (row.kind == trace::UNMAP) {
    LetGo(&array_holds_, row.address, kAnySlot, 1, accounts);
  } else if (const auto it = handle_index_.find(row.handle); it != handle_index_.end()) {
    array_holds_.push_back({row.address, 1, it->second});
    Keep(array_holds_.back());
  }
  return slot;
}

// Physical memory and pools belong to no context; the primary one's end is a reset all the same.
uint32_t CudaMemory::DestroyContext(const EventRow& row, const Lookahead& ahead, Accounts* accounts) {
  const uint32_t slot = SlotOfDevice(row.device);
  if (CorrectionFollows(row, ahead)) return slot;
  if (row.handle == 0) return ResetDevice(row, accounts);
  accounts->work.Spend(3 * allocations_.places());
  for (const KeySpace space : {kPointers, kArrays, kRegistered}) {
    std::vector<uint32_t> gone;
    allocations_.ForEachPlace([&](uint32_t place, const CudaAllocation& allocation) {
      if (allocation.context == row.handle && index_[space].Find(allocation.address) == place) gone.push_back(place);
    });
    for (const uint32_t place : gone) Remove(place, space, accounts);
  }
  return slot;
}

}  // namespace gpumem
