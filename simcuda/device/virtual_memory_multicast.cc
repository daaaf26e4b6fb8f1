// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// VirtualMemory's multicast objects and the tiles of sparse arrays: two more places that physical memory can be tied
// to. Neither takes memory itself; each tie keeps the memory as a mapping does.
#include "simcuda/device/granularity.h"
#include "simcuda/device/virtual_memory.h"

namespace simcuda {

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
