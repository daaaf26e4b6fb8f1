// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/device/sub_allocator.h"

#include <algorithm>
#include <vector>

#include "simcuda/device/granularity.h"

namespace simcuda {

std::optional<uint64_t> SubAllocator::Allocate(uint64_t size) {
  size = RoundUp(size, kSmallAlignment);
  if (const auto address = free_.Take(size, kSmallAlignment)) return address;
  const uint64_t grow_bytes = RoundUp(size, kGranule);
  const auto granules = source_->TakeGranules(grow_bytes);
  if (!granules) return std::nullopt;
  reserved_bytes_ += grow_bytes;
  if (grow_bytes > size) free_.Give(*granules + size, grow_bytes - size);
  return *granules;
}

Range SubAllocator::Free(uint64_t address, uint64_t size) {
  return free_.Give(address, RoundUp(size, kSmallAlignment));
}

void SubAllocator::ReleaseWithin(const Range& free_range) {
  const uint64_t begin = RoundUp(free_range.address, kGranule), end = RoundDown(free_range.end(), kGranule);
  if (begin >= end) return;
  free_.TakeAt(begin, end - begin);
  reserved_bytes_ -= end - begin;
  source_->GiveGranules(begin, end - begin);
}

void SubAllocator::ReleaseUnused(uint64_t keep_bytes) {
  if (reserved_bytes_ <= keep_bytes || free_.total_bytes() < kGranule) return;
  std::vector<Range> whole;
  uint64_t releasable = RoundDown(reserved_bytes_ - keep_bytes, kGranule);
  for (auto range = free_.by_address().rbegin(); range != free_.by_address().rend() && releasable > 0; ++range) {
    const uint64_t begin = RoundUp(range->first, kGranule), end = RoundDown(range->first + range->second, kGranule);
    if (begin >= end) continue;
    const uint64_t size = std::min(end - begin, releasable);
    whole.push_back({end - size, size});
    releasable -= size;
  }
  for (const Range& range : whole) {
    free_.TakeAt(range.address, range.size);
    reserved_bytes_ -= range.size;
    source_->GiveGranules(range.address, range.size);
  }
}

}  // namespace simcuda
