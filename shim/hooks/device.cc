// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/hooks/device.h"

#include <atomic>

#include "shim/base/event.h"
#include "shim/hooks/cuda_api.h"

namespace gpumemshim::hooks {
namespace {

std::atomic<void*> g_ctx_get_device;
std::atomic<void*> g_pointer_get_attribute;
std::atomic<void*> g_get_address_range;
std::atomic<void*> g_mem_get_info;
std::atomic<void*> g_exchange_capture_mode;
std::atomic<void*> g_get_pool;
std::atomic<void*> g_get_pool_attribute;

// 0 is the default stream, 1 and 2 name the legacy and the per-thread one: all of the current context.
constexpr uint64_t kLastNamedStream = 2;

}  // namespace

int16_t CurrentDevice() {
  const auto get = CachedDriverFunction<decltype(&::cuCtxGetDevice)>(g_ctx_get_device, "cuCtxGetDevice");
  CUdevice device = kNoDevice;
  if (get == nullptr || get(&device) != CUDA_SUCCESS) return kNoDevice;
  return static_cast<int16_t>(device);
}

int16_t DeviceOfAddress(uint64_t address) {
  const auto get =
      CachedDriverFunction<decltype(&::cuPointerGetAttribute)>(g_pointer_get_attribute, "cuPointerGetAttribute");
  int ordinal = kNoDevice;
  if (get == nullptr || get(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) != CUDA_SUCCESS || ordinal < 0) {
    return CurrentDevice();
  }
  return static_cast<int16_t>(ordinal);
}

int16_t DeviceOfStreamAllocation(uint64_t stream, uint64_t address) {
  return stream <= kLastNamedStream ? CurrentDevice() : DeviceOfAddress(address);
}

uint64_t SizeOfAddress(uint64_t address) {
  const auto get =
      CachedDriverFunction<decltype(&::cuMemGetAddressRange_v2)>(g_get_address_range, "cuMemGetAddressRange_v2");
  CUdeviceptr base = 0;
  size_t size = 0;
  if (get == nullptr || get(&base, &size, address) != CUDA_SUCCESS) return 0;
  return size;
}

bool MemoryOfDevice(int16_t device, uint64_t* free_bytes, uint64_t* total_bytes) {
  const auto get = CachedDriverFunction<decltype(&::cuMemGetInfo_v2)>(g_mem_get_info, "cuMemGetInfo_v2");
  const auto exchange = CachedDriverFunction<decltype(&::cuThreadExchangeStreamCaptureMode)>(
      g_exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  if (get == nullptr || device < 0 || CurrentDevice() != device) return false;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (exchange != nullptr && exchange(&mode) != CUDA_SUCCESS) return false;
  size_t free_now = 0;
  size_t total = 0;
  const bool answered = get(&free_now, &total) == CUDA_SUCCESS;
  if (exchange != nullptr) exchange(&mode);
  *free_bytes = free_now;
  *total_bytes = total;
  return answered;
}

bool MemoryOfPool(uint64_t handle, int16_t device, uint64_t* used_bytes, uint64_t* reserved_bytes) {
  const auto get_pool = CachedDriverFunction<decltype(&::cuDeviceGetMemPool)>(g_get_pool, "cuDeviceGetMemPool");
  const auto ask =
      CachedDriverFunction<decltype(&::cuMemPoolGetAttribute)>(g_get_pool_attribute, "cuMemPoolGetAttribute");
  if (get_pool == nullptr || ask == nullptr) return false;
  auto pool = reinterpret_cast<CUmemoryPool>(handle);
  if (pool == nullptr && (device < 0 || get_pool(&pool, device) != CUDA_SUCCESS)) return false;
  return ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, used_bytes) == CUDA_SUCCESS &&
         ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, reserved_bytes) == CUDA_SUCCESS;
}

std::atomic<int32_t> g_own_contexts;

namespace {

constexpr int kMax = 256;
std::atomic<uint64_t> g_contexts[kMax];
std::atomic<int32_t> g_users[kMax];  // beyond the first

bool Replace(uint64_t from, uint64_t to) {
  for (int i = 0; i < kMax; ++i) {
    uint64_t expected = from;
    if (!g_contexts[i].compare_exchange_strong(expected, to, std::memory_order_acq_rel)) continue;
    g_users[i].store(0, std::memory_order_relaxed);
    return true;
  }
  return false;
}

std::atomic<int32_t>* UsersOf(uint64_t context) {
  for (int i = 0; context != 0 && i < kMax; ++i) {
    if (g_contexts[i].load(std::memory_order_acquire) == context) return &g_users[i];
  }
  return nullptr;
}

}  // namespace

uint64_t FindOwnContext() {
  static std::atomic<void*> get_current;
  const auto get = CachedDriverFunction<decltype(&::cuCtxGetCurrent)>(get_current, "cuCtxGetCurrent");
  CUcontext current = nullptr;
  if (get == nullptr || get(&current) != CUDA_SUCCESS || current == nullptr) return 0;
  return IsOwnContext(AddressOf(current)) ? AddressOf(current) : 0;
}

bool IsOwnContext(uint64_t context) { return UsersOf(context) != nullptr; }

void AddUser(uint64_t context) {
  if (auto* const users = UsersOf(context)) users->fetch_add(1, std::memory_order_relaxed);
}

bool TakeUser(uint64_t context) {
  auto* const users = UsersOf(context);
  if (users == nullptr) return false;
  int32_t count = users->load(std::memory_order_relaxed);
  while (count > 0 && !users->compare_exchange_weak(count, count - 1, std::memory_order_relaxed)) {
  }
  return count > 0;
}

void AddOwnContext(uint64_t context) {
  if (context != 0 && Replace(0, context)) g_own_contexts.fetch_add(1, std::memory_order_acq_rel);
}

void RemoveOwnContext(uint64_t context) {
  if (context != 0 && Replace(context, 0)) g_own_contexts.fetch_sub(1, std::memory_order_acq_rel);
}

}  // namespace gpumemshim::hooks
