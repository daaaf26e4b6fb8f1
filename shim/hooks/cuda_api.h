// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NVIDIA's public headers with every variant of a function declared under its exported name (legacy, _v2, _ptsz), so
// that the compiler compares our definitions with NVIDIA's declarations: a wrapper with a wrong signature does not
// build. Everything that they declare has default visibility; the version script decides what is exported.
//
// GPUMEM_REAL(name), used in the wrapper of that name alone, is the function behind it for this caller, or nullptr.

#ifndef GPUMEM_SHIM_HOOKS_CUDA_API_H_
#define GPUMEM_SHIM_HOOKS_CUDA_API_H_

#define __CUDA_API_VERSION_INTERNAL
#pragma GCC visibility push(default)
#include <cuda.h>
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

#include "shim/hooks/caller_runtime.h"
#include "shim/hooks/real.h"

#define GPUMEM_REAL(name)              \
  reinterpret_cast<decltype(&::name)>( \
      ::gpumemshim::hooks::RealFunctionFor(::gpumemshim::ApiId::k##name, __builtin_return_address(0)))

namespace gpumemshim::hooks {

// Answers where the function behind ours is missing, as a program linked against a lesser library would see it.
inline constexpr CUresult kMissingDriver = CUDA_ERROR_NOT_FOUND;
inline constexpr cudaError_t kMissingRuntime = cudaErrorSharedObjectSymbolNotFound;

// A driver function that we call and do not wrap. Looked up once; one that the driver lacks is asked for again, which
// costs a walk over the loaded objects.
template <typename Function>
Function CachedDriverFunction(std::atomic<void*>& slot, const char* name) {
  void* known = slot.load(std::memory_order_acquire);
  if (known == nullptr) {
    known = DriverFunction(name);
    slot.store(known, std::memory_order_release);
  }
  return reinterpret_cast<Function>(known);
}

template <typename Pointer>
uint64_t AddressOf(Pointer pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}
inline uint64_t AddressOf(CUdeviceptr pointer) { return pointer; }
inline uint64_t AddressOf(CUdeviceptr_v1 pointer) { return pointer; }

}  // namespace gpumemshim::hooks

#endif  // GPUMEM_SHIM_HOOKS_CUDA_API_H_
