// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Drivers with one odd function, put in front of the simulated one:
//
//   preload_block     (BLOCKS)  the second cuMemAlloc returns only after a cuMemFree has
//   libcuda.so.query  (FAILS)   cuCtxGetDevice and cuPointerGetAttribute fail, as they may after a call that succeeded

#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>

#define EXPORT extern "C" __attribute__((visibility("default")))

#ifdef BLOCKS

static std::atomic<int> g_allocations, g_frees;

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* out, std::size_t bytes) {
  const auto real = reinterpret_cast<decltype(&cuMemAlloc_v2)>(dlsym(RTLD_NEXT, "cuMemAlloc_v2"));
  if (g_allocations.fetch_add(1) == 1) {
    while (g_frees.load() == 0) usleep(1000);
  }
  return real(out, bytes);
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  const auto real = reinterpret_cast<decltype(&cuMemFree_v2)>(dlsym(RTLD_NEXT, "cuMemFree_v2"));
  while (g_allocations.load() < 2) usleep(1000);
  const CUresult result = real(address);
  g_frees.fetch_add(1);
  return result;
}

#else

EXPORT CUresult cuCtxGetDevice(CUdevice*) { return CUDA_ERROR_INVALID_CONTEXT; }
EXPORT CUresult cuPointerGetAttribute(void*, CUpointer_attribute, CUdeviceptr) { return CUDA_ERROR_UNKNOWN; }

#endif
