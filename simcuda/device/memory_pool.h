// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// One memory pool of the stream-ordered allocator: reserved granules, of which a part is used. Freed memory stays
// reserved until a trim, or until a synchronisation finds more reserved than the release threshold (0 by default).
//
// Thread-safety: none; LinearMemory locks. Ownership: LinearMemory owns its pools. A destroyed pool lives on until its
// last allocation is freed, as in CUDA.
#ifndef SIMCUDA_DEVICE_MEMORY_POOL_H_
#define SIMCUDA_DEVICE_MEMORY_POOL_H_

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "simcuda/device/free_ranges.h"

namespace simcuda {

class MemoryPool {
 public:
  // `device` is -1 for a pool of host memory; `location_type` and `location_id` are what the creator said.
  MemoryPool(uint64_t id, int device, GranuleSource* source, uint64_t max_bytes)
      : id_(id), device_(device), max_bytes_(max_bytes), memory_(source) {}

  std::optional<uint64_t> Allocate(uint64_t size);
  void Free(uint64_t address, uint64_t size);
  void TrimTo(uint64_t keep_bytes) { memory_.ReleaseUnused(keep_bytes); }
  void Synchronize() {
    if (memory_.reserved_bytes() > release_threshold_) memory_.ReleaseUnused(release_threshold_);
  }

  CUresult GetAttribute(CUmemPool_attribute attribute, void* value) const;
  CUresult SetAttribute(CUmemPool_attribute attribute, const void* value);

  uint64_t id() const { return id_; }
  int device() const { return device_; }
  uint64_t used_bytes() const { return memory_.used_bytes(); }
  uint64_t reserved_bytes() const { return memory_.reserved_bytes(); }
  uint64_t live_allocations() const { return live_allocations_; }

  // A pointer into an imported pool keeps it as an allocation would.
  void CountImport(int change) { live_allocations_ += static_cast<uint64_t>(change); }

  bool destroyed = false;
  bool imported = false;  // another process's

 private:
  const uint64_t id_;
  const int device_;
  const uint64_t max_bytes_;  // 0: as much as the device has
  SubAllocator memory_;
  uint64_t live_allocations_ = 0;
  uint64_t release_threshold_ = 0;
  uint64_t reserved_high_ = 0, used_high_ = 0;
  int reuse_[3] = {1, 1, 1};  // the three reuse policies, kept for those who read them back
};

}  // namespace simcuda

#endif  // SIMCUDA_DEVICE_MEMORY_POOL_H_
