// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Pinned and registered host memory.
#include "simcuda/driver/driver.h"

using namespace simcuda;  // NOLINT: C functions only

extern "C" {

CUresult cuMemHostAlloc(void** pointer, size_t size, unsigned flags) {
  Caller caller;
  if (const CUresult result = CurrentCaller("cuMemHostAlloc", &caller); result != CUDA_SUCCESS) return result;
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return GetSimulation()->host.Allocate(caller, size, flags, pointer);
}

CUresult cuMemAllocHost_v2(void** pointer, size_t size) {
  Caller caller;
  if (const CUresult result = CurrentCaller("cuMemAllocHost_v2", &caller); result != CUDA_SUCCESS) return result;
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return GetSimulation()->host.Allocate(caller, size, 0, pointer);
}

CUresult cuMemFreeHost(void* pointer) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return GetSimulation()->host.Free({.api = "cuMemFreeHost"}, pointer);
}

CUresult cuMemHostRegister_v2(void* pointer, size_t size, unsigned flags) {
  Caller caller;
  if (const CUresult result = CurrentCaller("cuMemHostRegister_v2", &caller); result != CUDA_SUCCESS) return result;
  return GetSimulation()->host.Register(caller, pointer, size, flags);
}

CUresult cuMemHostUnregister(void* pointer) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return GetSimulation()->host.Unregister({.api = "cuMemHostUnregister"}, pointer);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device_pointer, void* pointer, unsigned) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (!GetSimulation()->host.Find(reinterpret_cast<uint64_t>(pointer))) return CUDA_ERROR_INVALID_VALUE;
  *device_pointer = reinterpret_cast<CUdeviceptr>(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned* flags, void* pointer) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const auto range = GetSimulation()->host.Find(reinterpret_cast<uint64_t>(pointer));
  if (!range) return CUDA_ERROR_INVALID_VALUE;
  *flags = range->flags;
  return CUDA_SUCCESS;
}

}  // extern "C"
