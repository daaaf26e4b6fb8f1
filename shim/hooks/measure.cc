// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/hooks/measure.h"

#include <atomic>

#include "shim/hooks/capture.h"
#include "shim/hooks/device.h"

namespace gpumemshim::hooks {

FreeMemory FreeMemory::Now() {
  static std::atomic<void*> slot;
  FreeMemory now;
  if (capture::AnyActive()) return now;
  const int16_t device = CurrentDevice();
  if (device == kNoDevice) return now;
  const auto get = CachedDriverFunction<decltype(&::cuMemGetInfo_v2)>(slot, "cuMemGetInfo_v2");
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  if (get == nullptr || get(&free_bytes, &total_bytes) != CUDA_SUCCESS) return now;
  now.bytes_ = free_bytes;
  now.device_ = device;
  return now;
}

uint64_t FreeMemory::FellBy() const {
  if (device_ == kNoDevice) return 0;
  const FreeMemory now = Now();
  return now.device_ == device_ && now.bytes_ < bytes_ ? bytes_ - now.bytes_ : 0;
}

bool GraphMemoryReserved(int16_t device, uint64_t* bytes) {
  static std::atomic<void*> slot;
  if (device < 0 || capture::AnyActive()) return false;
  const auto get =
      CachedDriverFunction<decltype(&::cuDeviceGetGraphMemAttribute)>(slot, "cuDeviceGetGraphMemAttribute");
  cuuint64_t value = 0;
  if (get == nullptr || get(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &value) != CUDA_SUCCESS) return false;
  *bytes = value;
  return true;
}

uint64_t PoolReserved(CUmemoryPool pool) {
  static std::atomic<void*> slot;
  if (capture::AnyActive()) return 0;
  const auto get = CachedDriverFunction<decltype(&::cuMemPoolGetAttribute)>(slot, "cuMemPoolGetAttribute");
  cuuint64_t value = 0;
  if (get == nullptr || get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value) != CUDA_SUCCESS) return 0;
  return value;
}

}  // namespace gpumemshim::hooks
