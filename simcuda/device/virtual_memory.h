// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Virtual memory management: reservations of addresses, physical memory behind handles, and mappings of one into the
// other. Physical memory lives until its last handle is released and its last mapping is gone.
//
//   handle (refs) ──► PhysicalMemory ◄── mapping [address, +size) inside a reservation
//
// Three more kinds of handle can be mapped: memory imported from another process and multicast objects, both charged to
// nobody here; and physical memory may also back tiles of a sparse array or be bound to a multicast object, which keep
// it.
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
#include <set>
#include <tuple>
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

  // A handle for memory of that size which another process made; `device` is where it lies, -1 on a host location.
  CUresult Import(const Caller& caller, uint64_t size, const CUmemAllocationProp& properties, uint64_t* handle);
  struct Exportable {
    uint64_t size = 0;
    CUmemAllocationProp properties{};
  };
  std::optional<Exportable> FindOwn(uint64_t handle);

  // Multicast objects.
  CUresult CreateMulticast(const Caller& caller, uint64_t size, unsigned device_count, uint64_t* handle);
  CUresult AddMulticastDevice(const Caller& caller, uint64_t handle, int device);
  CUresult BindMulticast(const Caller& caller, uint64_t handle, uint64_t offset, uint64_t memory, uint64_t size);
  CUresult UnbindMulticast(const Caller& caller, uint64_t handle, int device, uint64_t offset, uint64_t size);

  // Tiles of sparse arrays: array, level or mip tail, layer, offsets.
  using Tile = std::tuple<uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t>;
  CUresult MapTile(const Caller& caller, const Tile& tile, uint64_t size, uint64_t handle);
  CUresult UnmapTile(const Caller& caller, const Tile& tile);
  void DropTiles(const Caller& caller, uint64_t array);

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
  enum class Kind { kOwn, kImported, kMulticast };
  struct PhysicalMemory {
    uint64_t size = 0;
    int device = -1;  // of a multicast object: the first that was added
    CUmemAllocationProp properties{};
    Kind kind = Kind::kOwn;
    int handles = 1;
    int mappings = 0;  // into addresses, tiles and multicast objects
  };
  struct Binding {
    uint64_t memory = 0, size = 0;
  };
  struct Multicast {
    unsigned device_count = 0;
    std::set<int> devices{};
    std::map<std::pair<int, uint64_t>, Binding> bindings{};  // by device and offset
  };
  struct MappedTile {
    uint64_t handle = 0, size = 0;
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
  void DropMapping(const Caller& caller, uint64_t handle);
  void DropIfUnreferenced(const Caller& caller, uint64_t handle);
  CUresult FailCreate(const Caller& caller, int device, uint64_t size, CUresult result);

  Machine* const machine_;
  std::map<uint64_t, uint64_t> reservations_;  // address -> size
  std::map<uint64_t, Mapping> mappings_;       // by address
  std::unordered_map<uint64_t, PhysicalMemory> physical_;
  std::unordered_map<uint64_t, Multicast> multicasts_;  // what is special of a multicast object
  std::map<Tile, MappedTile> tiles_;
};

}  // namespace simcuda

#endif  // SIMCUDA_DEVICE_VIRTUAL_MEMORY_H_
