// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Multicast objects: one range of addresses behind which several devices' memory lies. They take no memory themselves.
#include "simcuda/device/granularity.h"
#include "simcuda/driver/driver.h"

using namespace simcuda;  // NOLINT: C functions only

extern "C" {

CUresult cuMulticastCreate(CUmemGenericAllocationHandle* handle, const CUmulticastObjectProp* properties) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (handle == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t created = 0;
  const CUresult result = GetSimulation()->virtual_memory.CreateMulticast(
      {.api = "cuMulticastCreate"}, properties->size, properties->numDevices, &created);
  if (result == CUDA_SUCCESS) *handle = created;
  return result;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  return GetSimulation()->virtual_memory.AddMulticastDevice({.api = "cuMulticastAddDevice"}, handle, device);
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset, CUmemGenericAllocationHandle memory,
                            size_t memory_offset, size_t size, unsigned long long flags) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (flags != 0 || memory_offset != 0) return CUDA_ERROR_INVALID_VALUE;
  return GetSimulation()->virtual_memory.BindMulticast({.api = "cuMulticastBindMem"}, handle, offset, memory, size);
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset, CUdeviceptr pointer, size_t size,
                             unsigned long long flags) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const auto mapping = GetSimulation()->virtual_memory.FindMapping(pointer);
  if (flags != 0 || !mapping) return CUDA_ERROR_INVALID_VALUE;
  return GetSimulation()->virtual_memory.BindMulticast({.api = "cuMulticastBindAddr"}, handle, offset, mapping->handle,
                                                       size);
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset, size_t size) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  return GetSimulation()->virtual_memory.UnbindMulticast({.api = "cuMulticastUnbind"}, handle, device, offset, size);
}

CUresult cuMulticastGetGranularity(size_t* granularity, const CUmulticastObjectProp* properties,
                                   CUmulticastGranularity_flags) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (granularity == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *granularity = kGranule;
  return CUDA_SUCCESS;
}

}  // extern "C"
