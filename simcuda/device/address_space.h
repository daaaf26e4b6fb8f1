// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The device addresses of the simulated machine: one inaccessible mapping, so that a host that dereferences a device
// pointer crashes as it would with a GPU, cut into one region a device and one for cuMemAddressReserve.
//
//   base                                              base + size
//   | device 0 | device 1 | ... | virtual reservations |
//
// Addresses are the same in every run where the preferred base is free (it is, on x86-64 and aarch64 Linux).
// Thread-safety: Contains() from any thread; the rest under the owner's lock.
// Failure mode: where the kernel refuses the full size (ulimit -v, sanitizers), smaller ones are tried; ok() is false
// when none was granted.
#ifndef SIMCUDA_DEVICE_ADDRESS_SPACE_H_
#define SIMCUDA_DEVICE_ADDRESS_SPACE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "simcuda/base/environment.h"
#include "simcuda/device/free_ranges.h"

namespace simcuda {

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

class AddressSpace {
 public:
  explicit AddressSpace(int device_count, AddressOrder order = AddressOrder::kLinux, uint64_t context_range = 0);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  bool ok() const { return base_ != 0; }
  uint64_t base() const { return base_; }
  uint64_t size() const { return size_; }
  bool Contains(uint64_t address) const { return address - base_ < size_; }

  // Addresses for memory of `device`: a multiple of the granule, aligned to it.
  std::optional<uint64_t> Take(int device, uint64_t size);
  void Give(int device, uint64_t address, uint64_t size);
  DriverAddresses& device(int index) { return devices_[static_cast<size_t>(index)]; }

  // Addresses for a reservation; `hint`, if not 0, is used where it is free.
  std::optional<uint64_t> TakeReservation(uint64_t size, uint64_t alignment, uint64_t hint);
  void GiveReservation(uint64_t address, uint64_t size);

 private:
  uint64_t base_ = 0;
  uint64_t size_ = 0;
  std::vector<DriverAddresses> devices_;
  FreeRanges reservations_;
};

}  // namespace simcuda

#endif  // SIMCUDA_DEVICE_ADDRESS_SPACE_H_
