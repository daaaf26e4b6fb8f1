// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/device/free_ranges.h"

#include <iterator>

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

}  // namespace simcuda
