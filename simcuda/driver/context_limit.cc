// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A context's limits. Raising the stack, the heap of device-side malloc or the buffer of device-side printf makes the
// context larger: each beyond its default, the stack once for every thread that the device can hold. How much a real
// driver sets aside is not documented; this is the upper bound.
#include <mutex>

#include "simcuda/base/environment.h"
#include "simcuda/device/granularity.h"
#include "simcuda/driver/driver.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

constexpr uint64_t kThreadsPerMultiprocessor = 2048;
std::mutex g_limits_mutex;

size_t DefaultOf(CUlimit limit) {
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      return 1024;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      return 8 << 20;
    default:
      return 0;
  }
}

size_t ValueOf(const Context& context, CUlimit limit) {
  const auto found = context.limits.find(limit);
  return found != context.limits.end() ? found->second : DefaultOf(limit);
}

// What the context takes for the limit beyond what it takes anyway.
uint64_t Surplus(CUlimit limit, size_t value) {
  const size_t usual = DefaultOf(limit);
  if (usual == 0 || value <= usual) return 0;
  const uint64_t times = limit == CU_LIMIT_STACK_SIZE
                             ? kThreadsPerMultiprocessor * static_cast<uint64_t>(GetEnvironment().multiprocessors)
                             : 1;
  return RoundUp((value - usual) * times, kGranule);
}

}  // namespace

extern "C" {

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(g_limits_mutex);
  *value = ValueOf(*CurrentContext(), limit);
  return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  const std::lock_guard lock(g_limits_mutex);
  Context* const context = CurrentContext();
  const uint64_t before = Surplus(limit, ValueOf(*context, limit)), after = Surplus(limit, value);
  if (before != after) {
    const uint64_t bytes = context->bytes - before + after;
    const CUresult result = GetSimulation()->machine.ResizeContext(
        "cuCtxSetLimit", context->device, reinterpret_cast<uint64_t>(context), context->bytes, bytes);
    if (result != CUDA_SUCCESS) return result;
    context->bytes = bytes;
  }
  context->limits[limit] = value;
  return CUDA_SUCCESS;
}

}  // extern "C"
