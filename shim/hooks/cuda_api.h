// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What wrappers of CUDA's functions share.
//
// GPUMEM_REAL(name), used in the wrapper of that name alone, is the function behind it for this caller, or nullptr.

#ifndef GPUMEM_SHIM_HOOKS_CUDA_API_H_
#define GPUMEM_SHIM_HOOKS_CUDA_API_H_

#include "shim/base/calls/caller_runtime.h"
#include "shim/base/calls/cuda_headers.h"
#include "shim/base/calls/real.h"

#define GPUMEM_REAL(name)              \
  reinterpret_cast<decltype(&::name)>( \
      ::gpumemshim::calls::RealFunctionFor(::gpumemshim::ApiId::k##name, __builtin_return_address(0)))

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
    known = calls::DriverFunction(name);
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
