// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/device/device_memory.h"

#include "simcuda/device/granularity.h"

namespace simcuda {

std::optional<uint64_t> DeviceMemory::Allocate(uint64_t size) {
  if (size < kSmallLimit) return small_.Allocate(size);
  return TakeGranules(RoundUp(size, kGranule));
}

void DeviceMemory::Free(uint64_t address, uint64_t size) {
  if (size >= kSmallLimit) return GiveGranules(address, RoundUp(size, kGranule));
  small_.ReleaseWithin(small_.Free(address, size));
}

}  // namespace simcuda
