// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Stream-ordered memory and its pools. Work on simulated streams is done when the call returns, so a free takes effect
// at once; the memory stays reserved by its pool.
#include "simcuda/driver/capture.h"
#include "simcuda/driver/driver.h"
#include "simcuda/driver/stream.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

MemoryPool* Pool(CUmemoryPool handle) { return reinterpret_cast<MemoryPool*>(handle); }
CUmemoryPool Handle(MemoryPool* pool) { return reinterpret_cast<CUmemoryPool>(pool); }

bool IsHost(CUmemLocationType type) {
  return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
         type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

CUresult AllocateAsync(const char* api, CUdeviceptr* pointer, size_t size, MemoryPool* pool, CUstream handle) {
  Caller caller;
  if (const CUresult result = CurrentCaller(api, &caller); result != CUDA_SUCCESS) return result;
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  StreamState stream;
  if (const CUresult result = LookUpStream(handle, &stream); result != CUDA_SUCCESS) return result;
  caller.device = stream.device;
  caller.stream = reinterpret_cast<uint64_t>(handle);
  if (stream.capturing) {
    if (pool != nullptr) caller.device = GetSimulation()->linear.PoolDevice(pool);
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, caller.device};
    if (caller.device < 0) return CUDA_ERROR_NOT_SUPPORTED;  // a pool of host memory
    return CaptureAllocation(caller, handle, size, properties, pointer);
  }
  uint64_t address = 0;
  const CUresult result = GetSimulation()->linear.AllocateFromPool(caller, pool, size, &address);
  if (result == CUDA_SUCCESS) *pointer = address;
  return result;
}

// The device of a location, -1 for host memory. Managed pools are not simulated.
CUresult DeviceOfLocation(const CUmemLocation* location, CUmemAllocationType type, CUdevice* device) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_NOT_SUPPORTED;
  *device = -1;
  if (IsHost(location->type)) return CUDA_SUCCESS;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  *device = location->id;
  return CheckDevice(location->id);
}

}  // namespace

extern "C" {

CUresult cuMemAllocAsync(CUdeviceptr* pointer, size_t size, CUstream stream) {
  return AllocateAsync("cuMemAllocAsync", pointer, size, nullptr, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* pointer, size_t size, CUmemoryPool pool, CUstream stream) {
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AllocateAsync("cuMemAllocFromPoolAsync", pointer, size, Pool(pool), stream);
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream handle) {
  Caller caller;
  if (const CUresult result = CurrentCaller("cuMemFreeAsync", &caller); result != CUDA_SUCCESS) return result;
  if (pointer == 0) return CUDA_ERROR_INVALID_VALUE;
  StreamState stream;
  if (const CUresult result = LookUpStream(handle, &stream); result != CUDA_SUCCESS) return result;
  caller.stream = reinterpret_cast<uint64_t>(handle);
  if (stream.capturing) return CaptureFree(caller, handle, pointer);
  return GetSimulation()->linear.FreeAsync(caller, pointer);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  *pool = Handle(GetSimulation()->linear.default_pool(device));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  *pool = Handle(GetSimulation()->linear.current_pool(device));
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  return GetSimulation()->linear.SetCurrentPool(device, Pool(pool));
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  CUdevice device = 0;
  if (const CUresult result = DeviceOfLocation(location, type, &device); result != CUDA_SUCCESS) return result;
  if (device >= 0) return cuDeviceGetDefaultMemPool(pool, device);
  *pool = Handle(GetSimulation()->linear.default_host_pool());
  return CUDA_SUCCESS;
}

CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  CUdevice device = 0;
  if (const CUresult result = DeviceOfLocation(location, type, &device); result != CUDA_SUCCESS) return result;
  if (device >= 0) return cuDeviceGetMemPool(pool, device);
  *pool = Handle(GetSimulation()->linear.current_host_pool());
  return CUDA_SUCCESS;
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  CUdevice device = 0;
  if (const CUresult result = DeviceOfLocation(location, type, &device); result != CUDA_SUCCESS) return result;
  if (device >= 0) return cuDeviceSetMemPool(device, pool);
  return GetSimulation()->linear.SetCurrentHostPool(Pool(pool));
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (pool == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Caller caller{.api = "cuMemPoolCreate"};
  if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    caller.device = properties->location.id;
    if (const CUresult result = CheckDevice(caller.device); result != CUDA_SUCCESS) return result;
  } else if (!IsHost(properties->location.type)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  MemoryPool* created = nullptr;
  const CUresult result = GetSimulation()->linear.CreatePool(caller, properties->maxSize, &created);
  if (result == CUDA_SUCCESS) *pool = Handle(created);
  return result;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return GetSimulation()->linear.DestroyPool({.api = "cuMemPoolDestroy"}, Pool(pool));
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return GetSimulation()->linear.TrimPool({.api = "cuMemPoolTrimTo"}, Pool(pool), keep_bytes);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return GetSimulation()->linear.GetPoolAttribute(Pool(pool), attribute, value);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return GetSimulation()->linear.SetPoolAttribute({.api = "cuMemPoolSetAttribute"}, Pool(pool), attribute, value);
}

CUresult cuMemPoolSetAccess(CUmemoryPool, const CUmemAccessDesc* descriptions, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (descriptions[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) continue;
    if (const CUresult result = CheckDevice(descriptions[i].location.id); result != CUDA_SUCCESS) return result;
  }
  return GetSimulation() == nullptr ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool, CUmemLocation*) {
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return GetSimulation() == nullptr ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
}

}  // extern "C"
