// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Virtual memory management: reservations of addresses, physical memory behind handles, and mappings of one into the
// other. Physical memory lives until its last handle is released and its last mapping is gone.
//
//   handle (refs) ──► PhysicalMemory ◄── mapping [address, +size) inside a reservation
//
// Physical memory on a host location is charged to no device. Contents follow the address, not the physical memory:
// memory mapped twice does not show the same bytes at both places.
// Thread-safety: every public method locks the machine. Ownership: borrows the machine.
// Failure mode: CUresult, nothing changed; failed creations are logged as create_failed.
#ifndef SIMCUDA_DEVICE_VIRTUAL_MEMORY_H_
#define SIMCUDA_DEVICE_VIRTUAL_MEMORY_H_

#include <cuda.h>

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "simcuda/device/linear_memory.h"
#include "simcuda/device/machine.h"

namespace simcuda {

class VirtualMemory {
 public:
  explicit VirtualMemory(Machine* machine) : machine_(machine) {}

  CUresult Reserve(const Caller& caller, uint64_t size, uint64_t alignment, uint64_t hint, uint64_t* address);
  CUresult Unreserve(const Caller& caller, uint64_t address, uint64_t size);

  CUresult Create(const Caller& caller, uint64_t size, const CUmemAllocationProp& properties, uint64_t* handle);
  CUresult Release(const Caller& caller, uint64_t handle);
  CUresult RetainAt(const Caller& caller, uint64_t address, uint64_t* handle);
  CUresult Retain(const Caller& caller, uint64_t handle);
  CUresult GetProperties(uint64_t handle, CUmemAllocationProp* properties);

  CUresult Map(const Caller& caller, uint64_t address, uint64_t size, uint64_t offset, uint64_t handle);
  CUresult Unmap(const Caller& caller, uint64_t address, uint64_t size);
  CUresult SetAccess(const Caller& caller, uint64_t address, uint64_t size, const CUmemAccessDesc* descriptions,
                     size_t count);
  CUresult GetAccess(uint64_t address, const CUmemLocation& location, unsigned long long* flags);

  // The mapping that contains the address, in the terms of an allocation.
  struct MappedRange {
    uint64_t address = 0, size = 0, handle = 0;
    int device = -1;
  };
  std::optional<MappedRange> FindMapping(uint64_t address);
  std::optional<Range> FindReservation(uint64_t address);

 private:
  struct PhysicalMemory {
    uint64_t size = 0;
    int device = -1;
    CUmemAllocationProp properties{};
    int handles = 1;
    int mappings = 0;
  };
  struct Mapping {
    uint64_t size = 0;
    uint64_t handle = 0;
    CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    bool host_visible = false;
  };

  bool InsideReservation(uint64_t address, uint64_t size) const;
  bool Overlaps(uint64_t address, uint64_t size) const;
  bool CoversWholeMappings(uint64_t address, uint64_t size) const;
  void DropIfUnreferenced(const Caller& caller, uint64_t handle);
  CUresult FailCreate(const Caller& caller, int device, uint64_t size, CUresult result);

  Machine* const machine_;
  std::map<uint64_t, uint64_t> reservations_;  // address -> size
  std::map<uint64_t, Mapping> mappings_;       // by address
  std::unordered_map<uint64_t, PhysicalMemory> physical_;
};

}  // namespace simcuda

#endif  // SIMCUDA_DEVICE_VIRTUAL_MEMORY_H_
