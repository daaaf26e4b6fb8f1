// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "simcuda/device/free_ranges.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "simcuda/device/granularity.h"

namespace simcuda {

void FreeRanges::Insert(uint64_t address, uint64_t size) {
  by_address_.emplace(address, size);
  by_size_.emplace(size, address);
  total_bytes_ += size;
}

void FreeRanges::Erase(std::map<uint64_t, uint64_t>::iterator range) {
  total_bytes_ -= range->second;
  by_size_.erase({range->second, range->first});
  by_address_.erase(range);
}

void FreeRanges::Carve(std::map<uint64_t, uint64_t>::iterator range, uint64_t address, uint64_t size) {
  const Range whole{range->first, range->second};
  Erase(range);
  if (address > whole.address) Insert(whole.address, address - whole.address);
  if (address + size < whole.end()) Insert(address + size, whole.end() - address - size);
}

std::optional<uint64_t> FreeRanges::Take(uint64_t size, uint64_t alignment) {
  for (auto fit = by_size_.lower_bound({size, 0}); fit != by_size_.end(); ++fit) {
    const auto [range_size, range_address] = *fit;
    const uint64_t address = RoundUp(range_address, alignment);
    if (address + size > range_address + range_size) continue;  // only alignment can make a large enough range misfit
    Carve(by_address_.find(range_address), address, size);
    return address;
  }
  return std::nullopt;
}

bool FreeRanges::TakeAt(uint64_t address, uint64_t size) {
  auto range = by_address_.upper_bound(address);
  if (range == by_address_.begin()) return false;
  --range;
  if (address + size > range->first + range->second) return false;
  Carve(range, address, size);
  return true;
}

Range FreeRanges::Give(uint64_t address, uint64_t size) {
  auto next = by_address_.lower_bound(address);
  if (next != by_address_.end() && address + size == next->first) {
    size += next->second;
    const auto merged = next++;
    Erase(merged);
  }
  if (next != by_address_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == address) {
      address = previous->first;
      size += previous->second;
      Erase(previous);
    }
  }
  Insert(address, size);
  return {address, size};
}

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
