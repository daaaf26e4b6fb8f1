// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LinearMemory's pools: creation, attributes, trimming, and what a synchronisation releases.
#include <algorithm>

#include "simcuda/device/linear_memory.h"

namespace simcuda {

MemoryPool* LinearMemory::AddPool(int device, uint64_t max_bytes) {
  GranuleSource* source = &host_granules_;
  if (device >= 0) source = &machine_->device(device);
  pools_.push_back(std::make_unique<MemoryPool>(machine_->NextId(), device, source, max_bytes));
  return pools_.back().get();
}

bool LinearMemory::IsPool(const MemoryPool* pool) const {
  return std::any_of(pools_.begin(), pools_.end(), [pool](const auto& known) { return known.get() == pool; });
}

void LinearMemory::ErasePool(MemoryPool* pool) {
  pool->TrimTo(0);
  std::erase_if(pools_, [pool](const auto& known) { return known.get() == pool; });
}

MemoryPool* LinearMemory::current_pool(int device) {
  const std::lock_guard lock(machine_->mutex);
  return current_pools_[static_cast<size_t>(device)];
}

CUresult LinearMemory::SetCurrentPool(int device, MemoryPool* pool) {
  const std::lock_guard lock(machine_->mutex);
  if (!IsPool(pool) || pool->device() != device) return CUDA_ERROR_INVALID_VALUE;
  current_pools_[static_cast<size_t>(device)] = pool;
  return CUDA_SUCCESS;
}

MemoryPool* LinearMemory::default_host_pool() {
  const std::lock_guard lock(machine_->mutex);
  if (default_host_pool_ == nullptr) default_host_pool_ = AddPool(-1, 0);
  return default_host_pool_;
}

MemoryPool* LinearMemory::current_host_pool() {
  MemoryPool* const fallback = default_host_pool();
  const std::lock_guard lock(machine_->mutex);
  return current_host_pool_ != nullptr ? current_host_pool_ : fallback;
}

CUresult LinearMemory::SetCurrentHostPool(MemoryPool* pool) {
  const std::lock_guard lock(machine_->mutex);
  if (!IsPool(pool) || pool->device() >= 0) return CUDA_ERROR_INVALID_VALUE;
  current_host_pool_ = pool;
  return CUDA_SUCCESS;
}

CUresult LinearMemory::CreatePool(const Caller& caller, uint64_t max_bytes, MemoryPool** pool) {
  const std::lock_guard lock(machine_->mutex);
  *pool = AddPool(caller.device, max_bytes);
  machine_->Log({.api = caller.api, .kind = "pool_create", .device = caller.device, .handle = (*pool)->id()});
  return CUDA_SUCCESS;
}

int LinearMemory::PoolDevice(const MemoryPool* pool) {
  const std::lock_guard lock(machine_->mutex);
  return IsPool(pool) ? pool->device() : -1;
}

CUresult LinearMemory::DestroyPool(const Caller& caller, MemoryPool* pool) {
  const std::lock_guard lock(machine_->mutex);
  const bool is_default =
      std::count(default_pools_.begin(), default_pools_.end(), pool) > 0 || pool == default_host_pool_;
  if (!IsPool(pool) || pool->destroyed || is_default) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t id = pool->id();
  const int device = pool->device();
  pool->destroyed = true;
  pool->TrimTo(0);
  if (device >= 0 && current_pools_[static_cast<size_t>(device)] == pool) {
    current_pools_[static_cast<size_t>(device)] = default_pools_[static_cast<size_t>(device)];
  }
  if (current_host_pool_ == pool) current_host_pool_ = nullptr;
  if (pool->live_allocations() == 0) ErasePool(pool);
  machine_->Log({.api = caller.api, .kind = "pool_destroy", .device = device, .handle = id});
  return CUDA_SUCCESS;
}

CUresult LinearMemory::TrimPool(const Caller& caller, MemoryPool* pool, uint64_t keep_bytes) {
  const std::lock_guard lock(machine_->mutex);
  if (!IsPool(pool)) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t before = pool->reserved_bytes();
  pool->TrimTo(keep_bytes);
  machine_->Log({.api = caller.api,
                 .kind = "pool_trim",
                 .device = pool->device(),
                 .size = before - pool->reserved_bytes(),
                 .handle = pool->id()});
  return CUDA_SUCCESS;
}

CUresult LinearMemory::GetPoolAttribute(MemoryPool* pool, CUmemPool_attribute attribute, void* value) {
  const std::lock_guard lock(machine_->mutex);
  return IsPool(pool) ? pool->GetAttribute(attribute, value) : CUDA_ERROR_INVALID_VALUE;
}

CUresult LinearMemory::SetPoolAttribute(const Caller& caller, MemoryPool* pool, CUmemPool_attribute attribute,
                                        const void* value) {
  const std::lock_guard lock(machine_->mutex);
  const CUresult result = IsPool(pool) ? pool->SetAttribute(attribute, value) : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS) {
    machine_->Log({.api = caller.api,
                   .kind = "pool_attribute",
                   .device = pool->device(),
                   .size = static_cast<uint64_t>(attribute),
                   .handle = pool->id()});
  }
  return result;
}

void LinearMemory::Synchronize(int device) {
  const std::lock_guard lock(machine_->mutex);
  for (const auto& pool : pools_) {
    if (device < 0 || pool->device() == device) pool->Synchronize();
  }
}

}  // namespace simcuda
