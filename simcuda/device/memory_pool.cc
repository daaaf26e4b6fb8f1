// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/device/memory_pool.h"

#include <algorithm>
#include <cstring>

#include "simcuda/device/granularity.h"

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

}  // namespace simcuda
