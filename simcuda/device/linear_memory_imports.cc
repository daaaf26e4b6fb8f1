// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LinearMemory's foreign memory: addresses here, memory elsewhere.
#include "simcuda/device/granularity.h"
#include "simcuda/device/linear_memory.h"

namespace simcuda {

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
