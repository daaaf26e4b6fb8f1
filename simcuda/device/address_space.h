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
#include <optional>
#include <vector>

#include "simcuda/base/address_order.h"
#include "simcuda/device/driver_addresses.h"
#include "simcuda/device/free_ranges.h"

namespace simcuda {

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
