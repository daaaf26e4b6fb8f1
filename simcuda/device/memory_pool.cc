// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "simcuda/device/memory_pool.h"

#include <algorithm>
#include <cstring>

#include "simcuda/device/granularity.h"
#include "simcuda/device/linear_memory.h"

namespace simcuda {
namespace {

template <typename T>
void Store(void* target, T value) {
  std::memcpy(target, &value, sizeof value);
}

template <typename T>
T Load(const void* source) {
  T value;
  std::memcpy(&value, source, sizeof value);
  return value;
}

}  // namespace

std::optional<uint64_t> MemoryPool::Allocate(uint64_t size) {
  if (max_bytes_ != 0 && used_bytes() + RoundUp(size, kSmallAlignment) > max_bytes_) return std::nullopt;
  const auto address = memory_.Allocate(size);
  if (!address) return std::nullopt;
  ++live_allocations_;
  reserved_high_ = std::max(reserved_high_, memory_.reserved_bytes());
  used_high_ = std::max(used_high_, memory_.used_bytes());
  return address;
}

void MemoryPool::Free(uint64_t address, uint64_t size) {
  memory_.Free(address, size);
  --live_allocations_;
}

CUresult MemoryPool::GetAttribute(CUmemPool_attribute attribute, void* value) const {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      Store<int>(value, reuse_[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES]);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      Store<cuuint64_t>(value, release_threshold_);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      Store<cuuint64_t>(value, memory_.reserved_bytes());
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      Store<cuuint64_t>(value, reserved_high_);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      Store<cuuint64_t>(value, memory_.used_bytes());
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      Store<cuuint64_t>(value, used_high_);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult MemoryPool::SetAttribute(CUmemPool_attribute attribute, const void* value) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      reuse_[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = Load<int>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      release_threshold_ = Load<cuuint64_t>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:  // the high-water marks can only be reset
      if (Load<cuuint64_t>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      reserved_high_ = memory_.reserved_bytes();
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (Load<cuuint64_t>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      used_high_ = memory_.used_bytes();
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// LinearMemory's pools: creation, attributes, trimming, and what a synchronisation releases.

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
