// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// At which addresses a driver places the memory of one device: a model of what was seen in histories of real GPUs
// (simcuda/README.md, "Order of addresses"). PyTorch's allocator takes the block of the lowest address among blocks of
// one size, so this order decides which block is reused.
//
//   kLinux   end                                                                    begin
//            | region 32 MiB | region 128 MiB          | region 64 MiB |  ....
//            | context  20 . | 100 MiB        26 MiB . | 58 MiB      . |   new regions follow downwards
//
// Linux: address space comes in regions of whole 32 MiB, each below all before it, or in the highest gap that a region
// left when it became empty. A request goes to the lowest free place within the regions; only one that fits nowhere
// gets a new region, and begins it. WSL2: the lowest free place of all, so addresses ascend. What the context took at
// the bottom is free from the first kernel on.
//
// Thread-safety: none; the owner locks. Failure mode: nothing where no address is left.
#ifndef SIMCUDA_DEVICE_DRIVER_ADDRESSES_H_
#define SIMCUDA_DEVICE_DRIVER_ADDRESSES_H_

#include <cstdint>
#include <map>
#include <optional>

#include "simcuda/base/address_order.h"
#include "simcuda/device/free_ranges.h"

namespace simcuda {

class DriverAddresses {
 public:
  // Owns [begin, end), both multiples of the granule. `context_bytes`, likewise: the part of a WSL2 context.
  DriverAddresses(AddressOrder order, uint64_t begin, uint64_t end, uint64_t context_bytes);

  uint64_t begin() const { return begin_; }
  uint64_t end() const { return end_; }

  // `size` is a multiple of the granule.
  std::optional<uint64_t> Take(uint64_t size);
  void Give(uint64_t address, uint64_t size);

  // A kernel is launched on the device.
  void OnKernel();

  // The next Take() is answered with `address`, if its range is free. Gaps above the lowest such address count as
  // somebody else's from then on. For a replay, which rebuilds what a recorded program had.
  void PlaceNext(uint64_t address) { place_ = address; }

 private:
  struct Region {
    uint64_t size = 0;
    FreeRanges free{};
  };

  std::optional<uint64_t> TakeFromGap(uint64_t size);
  std::optional<uint64_t> TakePlaced(uint64_t address, uint64_t size);
  void ForgetContext();
  void Cover(uint64_t address, uint64_t size);

  const AddressOrder order_;
  const uint64_t begin_, end_;
  uint64_t context_bytes_;  // still held at begin_, WSL2 only
  bool taken_ = false;
  std::optional<uint64_t> place_;
  FreeRanges gaps_;                     // where no region is
  std::map<uint64_t, Region> regions_;  // by address
};

}  // namespace simcuda

#endif  // SIMCUDA_DEVICE_DRIVER_ADDRESSES_H_
