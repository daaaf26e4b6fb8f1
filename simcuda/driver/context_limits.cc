// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A context's limits, and the local memory of kernels, which takes the place of the stack where it is more.
#include <algorithm>
#include <mutex>

#include "simcuda/base/environment.h"
#include "simcuda/device/granularity.h"
#include "simcuda/driver/driver.h"

using namespace simcuda;  // NOLINT: C functions only below

namespace {

// Raising the stack, the heap of device-side malloc or the buffer of device-side printf makes the
// context larger: each beyond its default, the stack once for every thread that the device can hold. How much a real
// driver sets aside is not documented; this is the upper bound.

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
  const Environment& environment = GetEnvironment();
  const uint64_t times = limit == CU_LIMIT_STACK_SIZE ? static_cast<uint64_t>(environment.multiprocessor.max_threads) *
                                                            static_cast<uint64_t>(environment.multiprocessors)
                                                      : 1;
  return RoundUp((value - usual) * times, kGranule);
}

// Of a thread's stack, and of kernels' local memory in its place where that is more.
size_t TakenFor(const Context& context, CUlimit limit, size_t value) {
  return limit == CU_LIMIT_STACK_SIZE ? std::max<size_t>(value, context.local_bytes) : value;
}

CUresult Resize(const char* api, uint64_t before, uint64_t after) {
  Context* const context = CurrentContext();
  if (before == after) return CUDA_SUCCESS;
  const uint64_t bytes = context->bytes - before + after;
  const CUresult result = GetSimulation()->machine.ResizeContext(
      api, context->device, reinterpret_cast<uint64_t>(context), context->bytes, bytes);
  if (result == CUDA_SUCCESS) context->bytes = bytes;
  return result;
}

}  // namespace

// As measured on an H100: 4 KiB a thread took 792 MiB beyond the 1 KiB that each has anyway, 64 KiB 15,840 more.
CUresult simcuda::NeedLocalMemory(uint64_t thread_bytes) {
  Context* const context = CurrentContext();
  const std::lock_guard lock(g_limits_mutex);
  if (thread_bytes <= context->local_bytes) return CUDA_SUCCESS;
  const size_t limit = ValueOf(*context, CU_LIMIT_STACK_SIZE);
  const uint64_t before = Surplus(CU_LIMIT_STACK_SIZE, TakenFor(*context, CU_LIMIT_STACK_SIZE, limit));
  const uint64_t after = Surplus(CU_LIMIT_STACK_SIZE, std::max<size_t>(limit, thread_bytes));
  const CUresult result = Resize("cuLaunchKernel", before, after);
  if (result == CUDA_SUCCESS) context->local_bytes = thread_bytes;
  return result;
}

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
  const uint64_t before = Surplus(limit, TakenFor(*context, limit, ValueOf(*context, limit)));
  const uint64_t after = Surplus(limit, TakenFor(*context, limit, value));
  if (const CUresult result = Resize("cuCtxSetLimit", before, after); result != CUDA_SUCCESS) return result;
  context->limits[limit] = value;
  return CUDA_SUCCESS;
}

}  // extern "C"
