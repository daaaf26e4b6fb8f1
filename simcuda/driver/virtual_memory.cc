// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Virtual memory management. These functions need no context, only cuInit.
#include "simcuda/device/granularity.h"
#include "simcuda/driver/driver.h"
#include "simcuda/driver/sharing.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

Caller From(const char* api) {
  const Context* const context = CurrentContext();
  return {.api = api, .device = context != nullptr ? context->device : -1, .context = context};
}

}  // namespace

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (granularity == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    if (const CUresult result = CheckDevice(properties->location.id); result != CUDA_SUCCESS) return result;
  }
  *granularity = kGranule;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* pointer, size_t size, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (pointer == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  uint64_t address = 0;
  const CUresult result =
      GetSimulation()->virtual_memory.Reserve(From("cuMemAddressReserve"), size, alignment, hint, &address);
  if (result == CUDA_SUCCESS) *pointer = address;
  return result;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t size) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return GetSimulation()->virtual_memory.Unreserve(From("cuMemAddressFree"), pointer, size);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* properties,
                     unsigned long long flags) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (handle == nullptr || properties == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  uint64_t created = 0;
  const CUresult result = GetSimulation()->virtual_memory.Create(From("cuMemCreate"), size, *properties, &created);
  if (result == CUDA_SUCCESS) *handle = created;
  return result;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return GetSimulation()->virtual_memory.Release(From("cuMemRelease"), handle);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  uint64_t retained = 0;
  const CUresult result = GetSimulation()->virtual_memory.RetainAt(From("cuMemRetainAllocationHandle"),
                                                                   reinterpret_cast<uint64_t>(address), &retained);
  if (result == CUDA_SUCCESS) *handle = retained;
  return result;
}

CUresult cuMemMap(CUdeviceptr pointer, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return GetSimulation()->virtual_memory.Map(From("cuMemMap"), pointer, size, offset, handle);
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t size) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return GetSimulation()->virtual_memory.Unmap(From("cuMemUnmap"), pointer, size);
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t size, const CUmemAccessDesc* descriptions, size_t count) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (descriptions == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  return GetSimulation()->virtual_memory.SetAccess(From("cuMemSetAccess"), pointer, size, descriptions, count);
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr pointer) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return GetSimulation()->virtual_memory.GetAccess(pointer, *location, flags);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return GetSimulation()->virtual_memory.GetProperties(handle, properties);
}

CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const auto memory = GetSimulation()->virtual_memory.FindOwn(handle);
  if (shareable == nullptr || !memory) return CUDA_ERROR_INVALID_VALUE;
  const CUmemLocation& location = memory->properties.location;
  const int device = location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : -1;
  SharedRecord record = MakeRecord(SharedRecord::kPhysical, handle, memory->size, device);
  record.location_type = location.type;
  record.location_id = location.id;
  return WriteRecord(record, static_cast<int*>(shareable));
}

// In the process that exported it a handle is the memory itself once more.
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                        CUmemAllocationHandleType type) {
  constexpr char kApi[] = "cuMemImportFromShareableHandle";
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SharedRecord record;
  int device = -1;
  if (const CUresult result = ReadRecord(shareable, &record); result != CUDA_SUCCESS) return result;
  if (const CUresult result = CheckRecord(record, SharedRecord::kPhysical, &device); result != CUDA_SUCCESS) {
    return result;
  }
  if (IsOwn(record)) {
    const CUresult result = GetSimulation()->virtual_memory.Retain(From(kApi), record.value);
    if (result == CUDA_SUCCESS) *handle = record.value;
    return result;
  }
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {static_cast<CUmemLocationType>(record.location_type),
                         device >= 0 ? device : record.location_id};
  uint64_t imported = 0;
  const CUresult result = GetSimulation()->virtual_memory.Import(From(kApi), record.size, properties, &imported);
  if (result == CUDA_SUCCESS) *handle = imported;
  return result;
}

}  // extern "C"

extern "C" {

// Multicast objects: one range of addresses behind which several devices' memory lies. They take no memory themselves.

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
