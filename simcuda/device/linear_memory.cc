// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "simcuda/device/linear_memory.h"

#include <algorithm>

#include "simcuda/device/granularity.h"

namespace simcuda {

namespace {

// Part of its device's live bytes.
bool IsCounted(const Allocation& allocation) {
  switch (allocation.kind) {
    case AllocationKind::kDevice:
    case AllocationKind::kPool:
    case AllocationKind::kGraph:
      return allocation.device >= 0;
    default:
      return false;
  }
}

// What cuMemFree takes. Memory opened by an IPC handle is closed instead.
bool IsFreeable(const Allocation& allocation) {
  const bool by_handle = allocation.kind == AllocationKind::kImported && allocation.pool == nullptr;
  return allocation.kind != AllocationKind::kStatic && !by_handle;
}

}  // namespace

LinearMemory::LinearMemory(Machine* machine) : machine_(machine), host_granules_(machine) {
  for (int device = 0; device < machine->device_count(); ++device) {
    default_pools_.push_back(AddPool(device, 0));
  }
  current_pools_ = default_pools_;
  graph_pools_.resize(default_pools_.size());
}

std::optional<uint64_t> LinearMemory::Place(int device, uint64_t size, AllocationKind kind) {
  switch (kind) {
    case AllocationKind::kDevice:
      return machine_->device(device).Allocate(size);
    case AllocationKind::kManaged:
      return host_granules_.TakeGranules(RoundUp(size, kGranule));
    case AllocationKind::kStatic:
      return machine_->addresses.TakeReservation(RoundUp(size, kGranule), kGranule, 0);
    default:  // made elsewhere
      break;
  }
  return std::nullopt;
}

void LinearMemory::Release(const Allocation& allocation) {
  if (allocation.kind != AllocationKind::kManaged) machine_->contents.Zero(allocation.address, allocation.size);
  switch (allocation.kind) {
    case AllocationKind::kDevice:
      return machine_->device(allocation.device).Free(allocation.address, allocation.size);
    case AllocationKind::kManaged:
      return host_granules_.GiveGranules(allocation.address, RoundUp(allocation.size, kGranule));
    case AllocationKind::kStatic:
      return machine_->addresses.GiveReservation(allocation.address, RoundUp(allocation.size, kGranule));
    case AllocationKind::kPool:
      allocation.pool->Free(allocation.address, allocation.size);
      if (allocation.pool->destroyed && allocation.pool->live_allocations() == 0) ErasePool(allocation.pool);
      return;
    case AllocationKind::kGraph:
      return ReleaseGraphMemory(allocation);
    case AllocationKind::kImported:
    case AllocationKind::kExternal:
      machine_->addresses.GiveReservation(allocation.address, RoundUp(allocation.size, kGranule));
      if (allocation.pool == nullptr) return;
      allocation.pool->CountImport(-1);
      if (allocation.pool->destroyed && allocation.pool->live_allocations() == 0) ErasePool(allocation.pool);
      return;
  }
}

CUresult LinearMemory::FailAllocation(const Caller& caller, uint64_t size, uint64_t handle, CUresult result) {
  machine_->Log({.api = caller.api,
                 .kind = "alloc_failed",
                 .device = caller.device,
                 .size = size,
                 .handle = handle,
                 .stream = caller.stream,
                 .result = result});
  return result;
}

CUresult LinearMemory::Remember(const Caller& caller, const Allocation& allocation) {
  const bool on_device = allocation.kind == AllocationKind::kDevice || allocation.kind == AllocationKind::kPool;
  if (on_device && allocation.device >= 0) machine_->device(allocation.device).AddLive(allocation.size);
  allocations_.emplace(allocation.address, allocation);
  machine_->Log({.api = caller.api,
                 .kind = allocation.kind == AllocationKind::kStatic ? "static" : "alloc",
                 .device = allocation.device,
                 .address = allocation.address,
                 .size = allocation.size,
                 .handle = allocation.pool != nullptr ? allocation.pool->id() : 0,
                 .stream = caller.stream});
  return CUDA_SUCCESS;
}

CUresult LinearMemory::Allocate(const Caller& caller, uint64_t size, AllocationKind kind, uint64_t* address) {
  const std::lock_guard lock(machine_->mutex);
  if (size == 0) return FailAllocation(caller, size, 0, CUDA_ERROR_INVALID_VALUE);
  if (kind != AllocationKind::kStatic) {
    if (const CUresult forced = machine_->NextForcedFailure(); forced != CUDA_SUCCESS) {
      return FailAllocation(caller, size, 0, forced);
    }
  }
  const auto place = size <= machine_->addresses.size() ? Place(caller.device, size, kind) : std::nullopt;
  if (!place) return FailAllocation(caller, size, 0, CUDA_ERROR_OUT_OF_MEMORY);
  *address = *place;
  return Remember(caller, {.address = *place,
                           .size = size,
                           .device = caller.device,
                           .kind = kind,
                           .context = caller.context,
                           .id = machine_->NextId()});
}

CUresult LinearMemory::AllocateFromPool(const Caller& caller, MemoryPool* pool, uint64_t size, uint64_t* address) {
  const std::lock_guard lock(machine_->mutex);
  if (pool == nullptr) pool = current_pools_[static_cast<size_t>(caller.device)];
  if (!IsPool(pool) || pool->destroyed || pool->imported || size == 0)
    return FailAllocation(caller, size, 0, CUDA_ERROR_INVALID_VALUE);
  if (const CUresult forced = machine_->NextForcedFailure(); forced != CUDA_SUCCESS) {
    return FailAllocation(caller, size, pool->id(), forced);
  }
  const auto place = size <= machine_->addresses.size() ? pool->Allocate(size) : std::nullopt;
  if (!place) return FailAllocation(caller, size, pool->id(), CUDA_ERROR_OUT_OF_MEMORY);
  *address = *place;
  return Remember(caller, {.address = *place,
                           .size = size,
                           .device = pool->device(),
                           .kind = AllocationKind::kPool,
                           .context = caller.context,
                           .pool = pool,
                           .id = machine_->NextId()});
}

CUresult LinearMemory::Free(const Caller& caller, uint64_t address) {
  const std::lock_guard lock(machine_->mutex);
  return FreeLocked(caller, address, false);
}

CUresult LinearMemory::FreeAsync(const Caller& caller, uint64_t address) {
  const std::lock_guard lock(machine_->mutex);
  return FreeLocked(caller, address, true);
}

CUresult LinearMemory::FreeLocked(const Caller& caller, uint64_t address, bool async) {
  if (address == 0) return CUDA_SUCCESS;
  const auto found = allocations_.find(address);
  CUresult result = CUDA_SUCCESS;
  if (found == allocations_.end() || !IsFreeable(found->second)) {
    result = CUDA_ERROR_INVALID_VALUE;
  } else if (async && found->second.kind == AllocationKind::kManaged) {
    result = CUDA_ERROR_NOT_SUPPORTED;
  }
  if (result != CUDA_SUCCESS) {
    machine_->Log({.api = caller.api,
                   .kind = "free_failed",
                   .device = caller.device,
                   .address = address,
                   .stream = caller.stream,
                   .result = result});
    return result;
  }
  const Allocation allocation = found->second;
  allocations_.erase(found);
  ++machine_->free_calls;
  if (IsCounted(allocation)) machine_->device(allocation.device).RemoveLive(allocation.size);
  MemoryPool* const synchronized =
      async ? nullptr : allocation.pool;  // cuMemFree synchronises, cuMemFreeAsync does not
  const bool outlives = synchronized != nullptr && !synchronized->destroyed;
  const uint64_t pool_id = allocation.pool != nullptr ? allocation.pool->id() : 0;
  Release(allocation);
  if (outlives) synchronized->Synchronize();
  LogFree(caller, allocation, pool_id);
  return CUDA_SUCCESS;
}

void LinearMemory::LogFree(const Caller& caller, const Allocation& allocation, uint64_t pool_id) {
  const char* kind = "free";
  if (allocation.kind == AllocationKind::kImported) kind = "import_close";
  if (allocation.kind == AllocationKind::kExternal) kind = "external_unmap";
  machine_->Log({.api = caller.api,
                 .kind = kind,
                 .device = allocation.device,
                 .address = allocation.address,
                 .size = allocation.size,
                 .handle = pool_id,
                 .stream = caller.stream});
}

std::optional<Allocation> LinearMemory::Find(uint64_t address) {
  const std::lock_guard lock(machine_->mutex);
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return std::nullopt;
  const Allocation& allocation = std::prev(next)->second;
  if (address - allocation.address >= allocation.size) return std::nullopt;
  return allocation;
}

CUresult LinearMemory::ChangeImports(const Caller& caller, uint64_t address, int change) {
  const std::lock_guard lock(machine_->mutex);
  const auto found = allocations_.find(address);
  if (found == allocations_.end() || found->second.imports + change < 0) return CUDA_ERROR_INVALID_VALUE;
  found->second.imports += change;
  machine_->Log({.api = caller.api,
                 .kind = change > 0 ? "import" : "import_close",
                 .device = found->second.device,
                 .address = address,
                 .size = found->second.size});
  return CUDA_SUCCESS;
}

void LinearMemory::DropContext(const Caller& caller) {
  const std::lock_guard lock(machine_->mutex);
  for (auto at = allocations_.begin(); at != allocations_.end();) {
    if (at->second.context != caller.context) {
      ++at;
      continue;
    }
    const Allocation allocation = at->second;
    at = allocations_.erase(at);
    if (IsCounted(allocation)) machine_->device(allocation.device).RemoveLive(allocation.size);
    Release(allocation);
    LogFree(caller, allocation, 0);
  }
}

size_t LinearMemory::live_allocations() {
  const std::lock_guard lock(machine_->mutex);
  return allocations_.size();
}

std::optional<uint64_t> LinearMemory::HostGranules::TakeGranules(uint64_t size) {
  const auto address = machine_->addresses.TakeReservation(size, kGranule, 0);
  if (address && !machine_->contents.SetHostVisible(*address, size, true)) {
    machine_->addresses.GiveReservation(*address, size);
    return std::nullopt;
  }
  return address;
}

void LinearMemory::HostGranules::GiveGranules(uint64_t address, uint64_t size) {
  machine_->contents.SetHostVisible(address, size, false);
  machine_->addresses.GiveReservation(address, size);
}

// LinearMemory's foreign memory: addresses here, memory elsewhere.

CUresult LinearMemory::AddForeign(const Caller& caller, AllocationKind kind, uint64_t size, uint64_t source,
                                  MemoryPool* pool, uint64_t* address) {
  const std::lock_guard lock(machine_->mutex);
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto place = size <= machine_->addresses.size()
                         ? machine_->addresses.TakeReservation(RoundUp(size, kGranule), kGranule, 0)
                         : std::nullopt;
  if (!place) return CUDA_ERROR_OUT_OF_MEMORY;
  allocations_.emplace(*place, Allocation{.address = *place,
                                          .size = size,
                                          .device = caller.device,
                                          .kind = kind,
                                          .context = caller.context,
                                          .pool = pool,
                                          .id = machine_->NextId()});
  if (pool != nullptr) pool->CountImport(1);
  *address = *place;
  machine_->Log({.api = caller.api,
                 .kind = kind == AllocationKind::kImported ? "import" : "external_map",
                 .device = caller.device,
                 .address = *place,
                 .size = size,
                 .handle = source});
  return CUDA_SUCCESS;
}

CUresult LinearMemory::RemoveForeign(const Caller& caller, uint64_t address) {
  const std::lock_guard lock(machine_->mutex);
  const auto found = allocations_.find(address);
  if (found == allocations_.end() || found->second.kind != AllocationKind::kImported) return CUDA_ERROR_INVALID_VALUE;
  const Allocation allocation = found->second;
  allocations_.erase(found);
  Release(allocation);
  LogFree(caller, allocation, 0);
  return CUDA_SUCCESS;
}

CUresult LinearMemory::ImportPool(const Caller& caller, MemoryPool** pool) {
  const std::lock_guard lock(machine_->mutex);
  *pool = AddPool(caller.device, 0);
  (*pool)->imported = true;
  machine_->Log({.api = caller.api, .kind = "pool_import", .device = caller.device, .handle = (*pool)->id()});
  return CUDA_SUCCESS;
}

bool LinearMemory::IsImportedPool(const MemoryPool* pool) {
  const std::lock_guard lock(machine_->mutex);
  return IsPool(pool) && pool->imported;
}

}  // namespace simcuda
