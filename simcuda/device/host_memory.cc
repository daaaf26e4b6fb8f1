// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/device/host_memory.h"

#include <sys/mman.h>

#include <iterator>

#include "simcuda/device/granularity.h"

namespace simcuda {

CUresult HostMemory::Allocate(const Caller& caller, uint64_t size, unsigned flags, void** address) {
  const std::lock_guard lock(machine_->mutex);
  CUresult result = size == 0 ? CUDA_ERROR_INVALID_VALUE : machine_->NextForcedFailure();
  void* mapping = MAP_FAILED;
  if (result == CUDA_SUCCESS) {
    mapping = ::mmap(nullptr, RoundUp(size, kPage), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result != CUDA_SUCCESS) {
    machine_->Log({.api = caller.api, .kind = "host_alloc_failed", .size = size, .result = result});
    return result;
  }
  *address = mapping;
  const uint64_t at = reinterpret_cast<uint64_t>(mapping);
  ranges_[at] = {at, size, false, flags, caller.device, caller.context, machine_->NextId()};
  machine_->Log({.api = caller.api, .kind = "host_alloc", .address = at, .size = size});
  return CUDA_SUCCESS;
}

CUresult HostMemory::Free(const Caller& caller, const void* address) {
  if (address == nullptr) return CUDA_SUCCESS;
  const std::lock_guard lock(machine_->mutex);
  const uint64_t at = reinterpret_cast<uint64_t>(address);
  const auto found = ranges_.find(at);
  if (found == ranges_.end() || found->second.registered) {
    machine_->Log({.api = caller.api, .kind = "host_free_failed", .address = at, .result = CUDA_ERROR_INVALID_VALUE});
    return CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t size = found->second.size;
  ranges_.erase(found);
  ::munmap(const_cast<void*>(address), RoundUp(size, kPage));
  machine_->Log({.api = caller.api, .kind = "host_free", .address = at, .size = size});
  return CUDA_SUCCESS;
}

CUresult HostMemory::Register(const Caller& caller, const void* address, uint64_t size, unsigned flags) {
  if (address == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(machine_->mutex);
  const uint64_t at = reinterpret_cast<uint64_t>(address);
  const auto next = ranges_.lower_bound(at + size);
  const bool overlaps = next != ranges_.begin() && std::prev(next)->second.address + std::prev(next)->second.size > at;
  if (overlaps) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  ranges_[at] = {at, size, true, flags, caller.device, caller.context, machine_->NextId()};
  machine_->Log({.api = caller.api, .kind = "register", .address = at, .size = size});
  return CUDA_SUCCESS;
}

CUresult HostMemory::Unregister(const Caller& caller, const void* address) {
  const std::lock_guard lock(machine_->mutex);
  const auto found = ranges_.find(reinterpret_cast<uint64_t>(address));
  if (found == ranges_.end() || !found->second.registered) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  const HostRange range = found->second;
  ranges_.erase(found);
  machine_->Log({.api = caller.api, .kind = "unregister", .address = range.address, .size = range.size});
  return CUDA_SUCCESS;
}

std::optional<HostRange> HostMemory::Find(uint64_t address) {
  const std::lock_guard lock(machine_->mutex);
  const auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return std::nullopt;
  const HostRange& range = std::prev(next)->second;
  if (address - range.address >= range.size) return std::nullopt;
  return range;
}

}  // namespace simcuda
