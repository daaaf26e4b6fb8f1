// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "simcuda/device/virtual_memory.h"

#include <iterator>

#include "simcuda/device/granularity.h"

namespace simcuda {
namespace {

bool IsHost(CUmemLocationType type) {
  return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
         type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

template <typename Table>
auto Containing(const Table& table, uint64_t address) {
  auto at = table.upper_bound(address);
  return at == table.begin() ? table.end() : std::prev(at);
}

}  // namespace

CUresult VirtualMemory::Reserve(const Caller& caller, uint64_t size, uint64_t alignment, uint64_t hint,
                                uint64_t* address) {
  const std::lock_guard lock(machine_->mutex);
  if (size == 0 || size % kGranule != 0 || (alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto place = machine_->addresses.TakeReservation(size, alignment, hint);
  if (!place) return CUDA_ERROR_OUT_OF_MEMORY;
  reservations_.emplace(*place, size);
  *address = *place;
  machine_->Log({.api = caller.api, .kind = "reserve", .address = *place, .size = size});
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::Unreserve(const Caller& caller, uint64_t address, uint64_t size) {
  const std::lock_guard lock(machine_->mutex);
  const auto found = reservations_.find(address);
  if (found == reservations_.end() || found->second != size || Overlaps(address, size)) return CUDA_ERROR_INVALID_VALUE;
  reservations_.erase(found);
  machine_->addresses.GiveReservation(address, size);
  machine_->Log({.api = caller.api, .kind = "unreserve", .address = address, .size = size});
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::FailCreate(const Caller& caller, int device, uint64_t size, CUresult result) {
  machine_->Log({.api = caller.api, .kind = "create_failed", .device = device, .size = size, .result = result});
  return result;
}

CUresult VirtualMemory::Create(const Caller& caller, uint64_t size, const CUmemAllocationProp& properties,
                               uint64_t* handle) {
  const std::lock_guard lock(machine_->mutex);
  const CUmemLocation& location = properties.location;
  const bool on_device = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  if (on_device && (location.id < 0 || location.id >= machine_->device_count())) return CUDA_ERROR_INVALID_DEVICE;
  if (!on_device && !IsHost(location.type)) return CUDA_ERROR_INVALID_VALUE;
  if (properties.type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  const int device = on_device ? location.id : -1;
  if (size == 0 || size % kGranule != 0) return FailCreate(caller, device, size, CUDA_ERROR_INVALID_VALUE);
  if (const CUresult forced = machine_->NextForcedFailure(); forced != CUDA_SUCCESS) {
    return FailCreate(caller, device, size, forced);
  }
  if (on_device && !machine_->device(device).Charge(size)) {
    return FailCreate(caller, device, size, CUDA_ERROR_OUT_OF_MEMORY);
  }
  if (on_device) machine_->device(device).AddLive(size);
  *handle = machine_->NextId();
  physical_.emplace(*handle, PhysicalMemory{.size = size, .device = device, .properties = properties});
  machine_->Log({.api = caller.api, .kind = "create", .device = device, .size = size, .handle = *handle});
  return CUDA_SUCCESS;
}

void VirtualMemory::DropIfUnreferenced(const Caller& caller, uint64_t handle) {
  const auto found = physical_.find(handle);
  const PhysicalMemory memory = found->second;
  if (memory.handles > 0 || memory.mappings > 0) return;
  physical_.erase(found);
  const char* kind = memory.kind == Kind::kOwn ? "physical_free" : "import_close";
  if (memory.kind == Kind::kOwn) {
    ++machine_->free_calls;
    if (memory.device >= 0) {
      machine_->device(memory.device).Discharge(memory.size);
      machine_->device(memory.device).RemoveLive(memory.size);
    }
  } else if (memory.kind == Kind::kMulticast) {
    kind = "multicast_destroy";
  }
  machine_->Log({.api = caller.api, .kind = kind, .device = memory.device, .size = memory.size, .handle = handle});
  if (memory.kind != Kind::kMulticast) return;
  const Multicast multicast = multicasts_.at(handle);
  multicasts_.erase(handle);
  for (const auto& [place, binding] : multicast.bindings) DropMapping(caller, binding.memory);
}

void VirtualMemory::DropMapping(const Caller& caller, uint64_t handle) {
  --physical_.at(handle).mappings;
  DropIfUnreferenced(caller, handle);
}

CUresult VirtualMemory::Import(const Caller& caller, uint64_t size, const CUmemAllocationProp& properties,
                               uint64_t* handle) {
  const std::lock_guard lock(machine_->mutex);
  const int device = properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? properties.location.id : -1;
  if (device >= machine_->device_count()) return CUDA_ERROR_INVALID_DEVICE;
  *handle = machine_->NextId();
  physical_.emplace(*handle,
                    PhysicalMemory{.size = size, .device = device, .properties = properties, .kind = Kind::kImported});
  machine_->Log({.api = caller.api, .kind = "import", .device = device, .size = size, .handle = *handle});
  return CUDA_SUCCESS;
}

std::optional<VirtualMemory::Exportable> VirtualMemory::FindOwn(uint64_t handle) {
  const std::lock_guard lock(machine_->mutex);
  const auto found = physical_.find(handle);
  if (found == physical_.end() || found->second.kind != Kind::kOwn || found->second.handles == 0) return std::nullopt;
  return Exportable{found->second.size, found->second.properties};
}

CUresult VirtualMemory::Release(const Caller& caller, uint64_t handle) {
  const std::lock_guard lock(machine_->mutex);
  const auto found = physical_.find(handle);
  if (found == physical_.end() || found->second.handles == 0) return CUDA_ERROR_INVALID_VALUE;
  --found->second.handles;
  machine_->Log({.api = caller.api,
                 .kind = "release",
                 .device = found->second.device,
                 .size = found->second.size,
                 .handle = handle});
  DropIfUnreferenced(caller, handle);
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::Retain(const Caller& caller, uint64_t handle) {
  const std::lock_guard lock(machine_->mutex);
  const auto found = physical_.find(handle);
  if (found == physical_.end()) return CUDA_ERROR_INVALID_VALUE;
  ++found->second.handles;
  machine_->Log({.api = caller.api,
                 .kind = "retain",
                 .device = found->second.device,
                 .size = found->second.size,
                 .handle = handle});
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::RetainAt(const Caller& caller, uint64_t address, uint64_t* handle) {
  const auto mapping = FindMapping(address);
  if (!mapping) return CUDA_ERROR_INVALID_VALUE;
  *handle = mapping->handle;
  return Retain(caller, mapping->handle);
}

CUresult VirtualMemory::GetProperties(uint64_t handle, CUmemAllocationProp* properties) {
  const std::lock_guard lock(machine_->mutex);
  const auto found = physical_.find(handle);
  if (found == physical_.end()) return CUDA_ERROR_INVALID_VALUE;
  *properties = found->second.properties;
  return CUDA_SUCCESS;
}

bool VirtualMemory::InsideReservation(uint64_t address, uint64_t size) const {
  const auto at = Containing(reservations_, address);
  return at != reservations_.end() && address + size <= at->first + at->second;
}

bool VirtualMemory::Overlaps(uint64_t address, uint64_t size) const {
  auto at = mappings_.lower_bound(address + size);
  return at != mappings_.begin() && std::prev(at)->first + std::prev(at)->second.size > address;
}

CUresult VirtualMemory::Map(const Caller& caller, uint64_t address, uint64_t size, uint64_t offset, uint64_t handle) {
  const std::lock_guard lock(machine_->mutex);
  const auto found = physical_.find(handle);
  const bool known = found != physical_.end() && found->second.handles > 0;
  if (!known || offset != 0 || size != found->second.size || address % kGranule != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!InsideReservation(address, size) || Overlaps(address, size)) return CUDA_ERROR_INVALID_VALUE;
  ++found->second.mappings;
  mappings_.emplace(address, Mapping{.size = size, .handle = handle});
  machine_->Log({.api = caller.api,
                 .kind = "map",
                 .device = found->second.device,
                 .address = address,
                 .size = size,
                 .handle = handle});
  return CUDA_SUCCESS;
}

bool VirtualMemory::CoversWholeMappings(uint64_t address, uint64_t size) const {
  uint64_t next = address;
  for (auto at = mappings_.find(address); at != mappings_.end() && at->first == next && next < address + size; ++at) {
    next += at->second.size;
  }
  return size != 0 && next == address + size;
}

CUresult VirtualMemory::Unmap(const Caller& caller, uint64_t address, uint64_t size) {
  const std::lock_guard lock(machine_->mutex);
  if (!CoversWholeMappings(address, size)) return CUDA_ERROR_INVALID_VALUE;
  for (auto at = mappings_.find(address); at != mappings_.end() && at->first < address + size;) {
    const uint64_t at_address = at->first;
    const Mapping mapping = at->second;
    at = mappings_.erase(at);
    if (mapping.host_visible) {
      machine_->contents.SetHostVisible(at_address, mapping.size, false);
    } else {
      machine_->contents.Zero(at_address, mapping.size);
    }
    const PhysicalMemory& memory = physical_.at(mapping.handle);
    machine_->Log({.api = caller.api,
                   .kind = "unmap",
                   .device = memory.device,
                   .address = at_address,
                   .size = mapping.size,
                   .handle = mapping.handle});
    DropMapping(caller, mapping.handle);
  }
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::SetAccess(const Caller& caller, uint64_t address, uint64_t size,
                                  const CUmemAccessDesc* descriptions, size_t count) {
  const std::lock_guard lock(machine_->mutex);
  if (!CoversWholeMappings(address, size)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const CUmemLocation& location = descriptions[i].location;
    const bool device = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (device && (location.id < 0 || location.id >= machine_->device_count())) return CUDA_ERROR_INVALID_DEVICE;
    if (!device && !IsHost(location.type)) return CUDA_ERROR_INVALID_VALUE;
  }
  for (auto at = mappings_.find(address); at != mappings_.end() && at->first < address + size; ++at) {
    Mapping& mapping = at->second;
    for (size_t i = 0; i < count; ++i) {
      mapping.access = descriptions[i].flags;
      const bool host = IsHost(descriptions[i].location.type) && mapping.access != CU_MEM_ACCESS_FLAGS_PROT_NONE;
      if (host && !mapping.host_visible) {
        mapping.host_visible = machine_->contents.SetHostVisible(at->first, mapping.size, true);
      }
    }
  }
  machine_->Log({.api = caller.api, .kind = "access", .device = caller.device, .address = address, .size = size});
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::GetAccess(uint64_t address, const CUmemLocation&, unsigned long long* flags) {
  const std::lock_guard lock(machine_->mutex);
  const auto at = Containing(mappings_, address);
  if (at == mappings_.end() || address - at->first >= at->second.size) return CUDA_ERROR_INVALID_VALUE;
  *flags = at->second.access;
  return CUDA_SUCCESS;
}

std::optional<VirtualMemory::MappedRange> VirtualMemory::FindMapping(uint64_t address) {
  const std::lock_guard lock(machine_->mutex);
  const auto at = Containing(mappings_, address);
  if (at == mappings_.end() || address - at->first >= at->second.size) return std::nullopt;
  return MappedRange{at->first, at->second.size, at->second.handle, physical_.at(at->second.handle).device};
}

std::optional<Range> VirtualMemory::FindReservation(uint64_t address) {
  const std::lock_guard lock(machine_->mutex);
  const auto at = Containing(reservations_, address);
  if (at == reservations_.end() || address - at->first >= at->second) return std::nullopt;
  return Range{at->first, at->second};
}

// VirtualMemory's multicast objects and the tiles of sparse arrays: two more places that physical memory can be tied
// to. Neither takes memory itself; each tie keeps the memory as a mapping does.

CUresult VirtualMemory::CreateMulticast(const Caller& caller, uint64_t size, unsigned device_count, uint64_t* handle) {
  const std::lock_guard lock(machine_->mutex);
  if (size == 0 || size % kGranule != 0 || device_count == 0) return CUDA_ERROR_INVALID_VALUE;
  *handle = machine_->NextId();
  physical_.emplace(*handle, PhysicalMemory{.size = size, .kind = Kind::kMulticast});
  multicasts_[*handle].device_count = device_count;
  machine_->Log({.api = caller.api, .kind = "multicast_create", .size = size, .handle = *handle});
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::AddMulticastDevice(const Caller& caller, uint64_t handle, int device) {
  const std::lock_guard lock(machine_->mutex);
  const auto found = multicasts_.find(handle);
  if (found == multicasts_.end()) return CUDA_ERROR_INVALID_VALUE;
  Multicast& multicast = found->second;
  if (multicast.devices.size() == multicast.device_count || !multicast.devices.insert(device).second) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (multicast.devices.size() == 1) physical_.at(handle).device = device;
  machine_->Log({.api = caller.api, .kind = "multicast_add", .device = device, .handle = handle});
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::BindMulticast(const Caller& caller, uint64_t handle, uint64_t offset, uint64_t memory_handle,
                                      uint64_t size) {
  const std::lock_guard lock(machine_->mutex);
  const auto found = multicasts_.find(handle);
  const auto memory = physical_.find(memory_handle);
  const bool known = found != multicasts_.end() && memory != physical_.end() && memory->second.kind != Kind::kMulticast;
  if (!known || size == 0 || size % kGranule != 0 || offset % kGranule != 0) return CUDA_ERROR_INVALID_VALUE;
  Multicast& multicast = found->second;
  const int device = memory->second.device;
  if (size > memory->second.size || offset + size > physical_.at(handle).size) return CUDA_ERROR_INVALID_VALUE;
  if (multicast.devices.size() < multicast.device_count) return CUDA_ERROR_ILLEGAL_STATE;  // the real call would wait
  if (multicast.devices.count(device) == 0) return CUDA_ERROR_INVALID_DEVICE;
  for (const auto& [place, binding] : multicast.bindings) {
    const bool apart = place.first != device || place.second + binding.size <= offset || offset + size <= place.second;
    if (!apart) return CUDA_ERROR_INVALID_VALUE;
  }
  multicast.bindings[{device, offset}] = {memory_handle, size};
  ++memory->second.mappings;
  machine_->Log({.api = caller.api,
                 .kind = "multicast_bind",
                 .device = device,
                 .address = handle,
                 .size = size,
                 .handle = memory_handle});
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::UnbindMulticast(const Caller& caller, uint64_t handle, int device, uint64_t offset,
                                        uint64_t size) {
  const std::lock_guard lock(machine_->mutex);
  const auto found = multicasts_.find(handle);
  if (found == multicasts_.end()) return CUDA_ERROR_INVALID_VALUE;
  const auto bound = found->second.bindings.find({device, offset});
  if (bound == found->second.bindings.end() || bound->second.size != size) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t memory = bound->second.memory;
  found->second.bindings.erase(bound);
  machine_->Log({.api = caller.api,
                 .kind = "multicast_unbind",
                 .device = device,
                 .address = handle,
                 .size = size,
                 .handle = memory});
  DropMapping(caller, memory);
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::MapTile(const Caller& caller, const Tile& tile, uint64_t size, uint64_t handle) {
  const std::lock_guard lock(machine_->mutex);
  const auto found = physical_.find(handle);
  const bool fits = found != physical_.end() && found->second.kind != Kind::kMulticast && size <= found->second.size;
  if (!fits || found->second.handles == 0 || tiles_.count(tile) > 0) return CUDA_ERROR_INVALID_VALUE;
  ++found->second.mappings;
  tiles_[tile] = {handle, size};
  machine_->Log({.api = caller.api,
                 .kind = "array_map",
                 .device = found->second.device,
                 .address = std::get<0>(tile),
                 .size = size,
                 .handle = handle,
                 .stream = caller.stream});
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::UnmapTile(const Caller& caller, const Tile& tile) {
  const std::lock_guard lock(machine_->mutex);
  const auto found = tiles_.find(tile);
  if (found == tiles_.end()) return CUDA_ERROR_INVALID_VALUE;
  const MappedTile mapped = found->second;
  tiles_.erase(found);
  machine_->Log({.api = caller.api,
                 .kind = "array_unmap",
                 .device = physical_.at(mapped.handle).device,
                 .address = std::get<0>(tile),
                 .size = mapped.size,
                 .handle = mapped.handle,
                 .stream = caller.stream});
  DropMapping(caller, mapped.handle);
  return CUDA_SUCCESS;
}

void VirtualMemory::DropTiles(const Caller& caller, uint64_t array) {
  const std::lock_guard lock(machine_->mutex);
  for (auto at = tiles_.lower_bound({array, 0, 0, 0, 0, 0}); at != tiles_.end() && std::get<0>(at->first) == array;) {
    const uint64_t handle = at->second.handle;
    at = tiles_.erase(at);
    DropMapping(caller, handle);
  }
}

}  // namespace simcuda
