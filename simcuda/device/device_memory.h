// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// One device's physical memory: what is charged against its size, and what was asked for.
//
//   used_bytes  granules, contexts, arrays: what cuMemGetInfo takes off the total
//   live_bytes  the sizes as the program requested them
//
// Thread-safety: none; the machine locks. Failure mode: a charge beyond the size is refused and changes nothing.
#ifndef SIMCUDA_DEVICE_DEVICE_MEMORY_H_
#define SIMCUDA_DEVICE_DEVICE_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "simcuda/device/address_space.h"
#include "simcuda/device/sub_allocator.h"

namespace simcuda {

class DeviceMemory : public GranuleSource {
 public:
  DeviceMemory(int device, uint64_t total_bytes, AddressSpace* addresses)
      : device_(device), total_bytes_(total_bytes), addresses_(addresses), small_(this) {}

  bool Charge(uint64_t bytes) {
    if (bytes > total_bytes_ - used_bytes_) return false;
    used_bytes_ += bytes;
    peak_used_bytes_ = std::max(peak_used_bytes_, used_bytes_);
    return true;
  }
  void Discharge(uint64_t bytes) { used_bytes_ -= bytes; }

  void AddLive(uint64_t bytes) {
    live_bytes_ += bytes;
    peak_live_bytes_ = std::max(peak_live_bytes_, live_bytes_);
  }
  void RemoveLive(uint64_t bytes) { live_bytes_ -= bytes; }

  // GranuleSource: charged granules with addresses.
  std::optional<uint64_t> TakeGranules(uint64_t size) override {
    if (!Charge(size)) return std::nullopt;
    const auto address = addresses_->Take(device_, size);
    if (!address) Discharge(size);
    return address;
  }
  void GiveGranules(uint64_t address, uint64_t size) override {
    addresses_->Give(device_, address, size);
    Discharge(size);
  }

  // Plain allocations: below kSmallLimit they share granules.
  std::optional<uint64_t> Allocate(uint64_t size);
  void Free(uint64_t address, uint64_t size);

  int device() const { return device_; }
  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t used_bytes() const { return used_bytes_; }
  uint64_t live_bytes() const { return live_bytes_; }
  uint64_t peak_used_bytes() const { return peak_used_bytes_; }
  uint64_t peak_live_bytes() const { return peak_live_bytes_; }

 private:
  const int device_;
  const uint64_t total_bytes_;
  AddressSpace* const addresses_;
  SubAllocator small_;
  uint64_t used_bytes_ = 0, peak_used_bytes_ = 0;
  uint64_t live_bytes_ = 0, peak_live_bytes_ = 0;
};

}  // namespace simcuda

#endif  // SIMCUDA_DEVICE_DEVICE_MEMORY_H_
