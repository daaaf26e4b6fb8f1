// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Which allocation or reservation lies around an address, and what the thread's next events make of it.

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

}  // namespace gpumem
