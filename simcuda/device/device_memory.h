// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// One device's physical memory: what is charged against its size, and what was asked for.
//
//   used_bytes  granules, contexts, arrays: what cuMemGetInfo takes off the total
//   live_bytes  the sizes as the program requested them
//   others_bytes  what other processes hold: the made-up one and those that share the machine
//
// Thread-safety: none; the machine locks. Failure mode: a charge beyond the size is refused and changes nothing.
#ifndef SIMCUDA_DEVICE_DEVICE_MEMORY_H_
#define SIMCUDA_DEVICE_DEVICE_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "simcuda/base/shared_usage.h"
#include "simcuda/device/address_space.h"
#include "simcuda/device/sub_allocator.h"

namespace simcuda {

class DeviceMemory : public GranuleSource {
 public:
  DeviceMemory(int device, uint64_t total_bytes, AddressSpace* addresses)
      : device_(device), total_bytes_(total_bytes), addresses_(addresses), small_(this) {}

  bool Charge(uint64_t bytes) {
    if (limit_bytes() < used_bytes_ || bytes > limit_bytes() - used_bytes_) return false;
    SetUsed(used_bytes_ + bytes);  // published first: of two processes that want the last memory, none gets too much
    if (used_bytes_ + others_bytes() > limit_bytes()) {
      SetUsed(used_bytes_ - bytes);
      return false;
    }
    peak_used_bytes_ = std::max(peak_used_bytes_, used_bytes_);
    return true;
  }
  // Gives more than it has, as far as there are addresses, and goes on to state its size: how much a program wants.
  void Overcommit() { overcommits_ = true; }
  void Discharge(uint64_t bytes) { SetUsed(used_bytes_ - bytes); }

  // Who else is on this device: `physical` is its number in `shared`, which may be null.
  void SetNeighbours(SharedUsage* shared, int physical, uint64_t made_up_bytes) {
    shared_ = shared;
    physical_ = physical;
    made_up_bytes_ = made_up_bytes;
  }

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
  uint64_t others_bytes() const { return made_up_bytes_ + (shared_ != nullptr ? shared_->OthersBytes(physical_) : 0); }
  uint64_t free_bytes() const { return total_bytes_ - std::min(total_bytes_, used_bytes_ + others_bytes()); }
  int physical() const { return physical_; }
  uint64_t peak_used_bytes() const { return peak_used_bytes_; }
  uint64_t peak_live_bytes() const { return peak_live_bytes_; }

 private:
  static constexpr uint64_t kNoLimit = uint64_t{1} << 50;
  uint64_t limit_bytes() const { return overcommits_ ? kNoLimit : total_bytes_; }
  void SetUsed(uint64_t bytes) {
    used_bytes_ = bytes;
    if (shared_ != nullptr) shared_->Publish(physical_, bytes);
  }

  const int device_;
  const uint64_t total_bytes_;
  AddressSpace* const addresses_;
  SubAllocator small_;
  SharedUsage* shared_ = nullptr;  // lives as long as the process
  bool overcommits_ = false;
  int physical_ = 0;
  uint64_t made_up_bytes_ = 0;
  uint64_t used_bytes_ = 0, peak_used_bytes_ = 0;
  uint64_t live_bytes_ = 0, peak_live_bytes_ = 0;
};

}  // namespace simcuda

#endif  // SIMCUDA_DEVICE_DEVICE_MEMORY_H_
