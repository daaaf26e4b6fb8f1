// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Virtual memory management. These functions need no context, only cuInit.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simcuda/device/granularity.h"
#include "simcuda/driver/driver.h"

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

// A shareable handle is a file that holds the handle's number: it can be imported where it was exported, in this
// process.
CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  CUmemAllocationProp properties;
  if (const CUresult result = cuMemGetAllocationPropertiesFromHandle(&properties, handle); result != CUDA_SUCCESS) {
    return result;
  }
  const int file = ::memfd_create("simcuda-shareable", MFD_CLOEXEC);
  if (file < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  const uint64_t record[2] = {handle, static_cast<uint64_t>(::getpid())};
  if (::pwrite(file, record, sizeof record, 0) != sizeof record) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(shareable) = file;
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                        CUmemAllocationHandleType type) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  uint64_t record[2] = {};
  const int file = static_cast<int>(reinterpret_cast<intptr_t>(shareable));
  if (::pread(file, record, sizeof record, 0) != sizeof record) return CUDA_ERROR_INVALID_VALUE;
  if (record[1] != static_cast<uint64_t>(::getpid())) return CUDA_ERROR_NOT_SUPPORTED;
  const CUresult result = GetSimulation()->virtual_memory.Retain(From("cuMemImportFromShareableHandle"), record[0]);
  if (result == CUDA_SUCCESS) *handle = record[0];
  return result;
}

}  // extern "C"
