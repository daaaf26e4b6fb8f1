// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Plain, pitched, managed and host memory.
#include "simcuda/runtime/runtime.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

CUdeviceptr* Out(void** pointer) { return reinterpret_cast<CUdeviceptr*>(pointer); }

cudaError_t Advise(const void* pointer, size_t size, cudaMemoryAdvise advice, CUmemLocation place) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuMemAdvise(Pointer(pointer), size, static_cast<CUmem_advise>(advice), place));
}

cudaError_t Prefetch(const void* pointer, size_t size, CUmemLocation place, cudaStream_t stream) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuMemPrefetchAsync(Pointer(pointer), size, place, 0, stream));
}

#if CUDART_VERSION < 13000
// A device number as a place: the CPU is -1.
CUmemLocation PlaceOf(int device) {
  return {device == cudaCpuDeviceId ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE, device};
}
#endif

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t size) {
  if (pointer == nullptr) return Fail(cudaErrorInvalidValue);
  SIMCUDA_NEED_CONTEXT();
  if (size == 0) {
    *pointer = nullptr;
    return cudaSuccess;
  }
  return Check(Driver().cuMemAlloc(Out(pointer), size));
}

cudaError_t cudaFree(void* pointer) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuMemFree(Pointer(pointer)));
}

cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  if (pointer == nullptr || pitch == nullptr) return Fail(cudaErrorInvalidValue);
  SIMCUDA_NEED_CONTEXT();
  if (width == 0 || height == 0) {
    *pointer = nullptr;
    *pitch = 0;
    return cudaSuccess;
  }
  return Check(Driver().cuMemAllocPitch(Out(pointer), pitch, width, height, 4));
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* pointer, cudaExtent extent) {
  if (pointer == nullptr) return Fail(cudaErrorInvalidValue);
  *pointer = {nullptr, 0, extent.width, extent.height};
  return cudaMallocPitch(&pointer->ptr, &pointer->pitch, extent.width, extent.height * extent.depth);
}

cudaError_t cudaMallocManaged(void** pointer, size_t size, unsigned flags) {
  if (pointer == nullptr || size == 0) return Fail(cudaErrorInvalidValue);
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuMemAllocManaged(Out(pointer), size, flags));
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuMemGetInfo(free_bytes, total_bytes));
}

cudaError_t cudaHostAlloc(void** pointer, size_t size, unsigned flags) {
  if (pointer == nullptr) return Fail(cudaErrorInvalidValue);
  SIMCUDA_NEED_CONTEXT();
  if (size == 0) {
    *pointer = nullptr;
    return cudaSuccess;
  }
  return Check(Driver().cuMemHostAlloc(pointer, size, flags));
}

cudaError_t cudaMallocHost(void** pointer, size_t size) { return cudaHostAlloc(pointer, size, 0); }

cudaError_t cudaFreeHost(void* pointer) {
  SIMCUDA_NEED_CONTEXT();
  if (pointer == nullptr) return cudaSuccess;
  return Check(Driver().cuMemFreeHost(pointer));
}

cudaError_t cudaHostRegister(void* pointer, size_t size, unsigned flags) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuMemHostRegister(pointer, size, flags));
}

cudaError_t cudaHostUnregister(void* pointer) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuMemHostUnregister(pointer));
}

cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* pointer, unsigned flags) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuMemHostGetDevicePointer(Out(device_pointer), pointer, flags));
}

cudaError_t cudaHostGetFlags(unsigned* flags, void* pointer) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuMemHostGetFlags(flags, pointer));
}

#if CUDART_VERSION >= 13000
cudaError_t cudaMemAdvise(const void* pointer, size_t size, cudaMemoryAdvise advice, cudaMemLocation location) {
  return Advise(pointer, size, advice, {static_cast<CUmemLocationType>(location.type), location.id});
}

cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t size, cudaMemLocation location, unsigned,
                                 cudaStream_t stream) {
  return Prefetch(pointer, size, {static_cast<CUmemLocationType>(location.type), location.id}, stream);
}
#else
cudaError_t cudaMemAdvise(const void* pointer, size_t size, cudaMemoryAdvise advice, int device) {
  return Advise(pointer, size, advice, PlaceOf(device));
}

cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t size, int device, cudaStream_t stream) {
  return Prefetch(pointer, size, PlaceOf(device), stream);
}
#endif
#if CUDART_VERSION >= 12020 && CUDART_VERSION < 13000
cudaError_t cudaMemAdvise_v2(const void* pointer, size_t size, cudaMemoryAdvise advice, cudaMemLocation location) {
  return Advise(pointer, size, advice, {static_cast<CUmemLocationType>(location.type), location.id});
}

cudaError_t cudaMemPrefetchAsync_v2(const void* pointer, size_t size, cudaMemLocation location, unsigned,
                                    cudaStream_t stream) {
  return Prefetch(pointer, size, {static_cast<CUmemLocationType>(location.type), location.id}, stream);
}
#endif

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (attributes == nullptr) return Fail(cudaErrorInvalidValue);
  SIMCUDA_NEED_CONTEXT();
  unsigned type = 0, managed = 0;
  int device = -2;
  void* host = nullptr;
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* values[] = {&type, &managed, &device, &host};
  const CUresult result = Driver().cuPointerGetAttributes(4, wanted, values, Pointer(pointer));
  if (result != CUDA_SUCCESS) return Check(result);
  *attributes = {};
  attributes->device = device;
  if (type == 0) {  // not CUDA's: no error, and the pointer is what it says
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->hostPointer = const_cast<void*>(pointer);
    return cudaSuccess;
  }
  attributes->type = managed != 0                 ? cudaMemoryTypeManaged
                     : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                                  : cudaMemoryTypeDevice;
  attributes->devicePointer = const_cast<void*>(pointer);
  attributes->hostPointer = host;
  return cudaSuccess;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle*>(handle), Pointer(pointer)));
}

cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned flags) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuIpcOpenMemHandle(Out(pointer), reinterpret_cast<const CUipcMemHandle&>(handle), flags));
}

cudaError_t cudaIpcCloseMemHandle(void* pointer) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuIpcCloseMemHandle(Pointer(pointer)));
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuIpcGetEventHandle(reinterpret_cast<CUipcEventHandle*>(handle), event));
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuIpcOpenEventHandle(event, reinterpret_cast<const CUipcEventHandle&>(handle)));
}

}  // extern "C"

namespace {

// External memory: imported, mapped as buffers and mipmapped arrays.

CUexternalMemory Handle(cudaExternalMemory_t memory) { return reinterpret_cast<CUexternalMemory>(memory); }

}  // namespace

extern "C" {

cudaError_t cudaImportExternalMemory(cudaExternalMemory_t* memory, const cudaExternalMemoryHandleDesc* description) {
  if (description == nullptr) return Fail(cudaErrorInvalidValue);
  SIMCUDA_NEED_CONTEXT();
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC wanted{};
  wanted.type = static_cast<CUexternalMemoryHandleType>(description->type);
  wanted.handle.fd = description->handle.fd;
  wanted.size = description->size;
  wanted.flags = description->flags;
  return Check(Driver().cuImportExternalMemory(reinterpret_cast<CUexternalMemory*>(memory), &wanted));
}

cudaError_t cudaExternalMemoryGetMappedBuffer(void** pointer, cudaExternalMemory_t memory,
                                              const cudaExternalMemoryBufferDesc* description) {
  if (description == nullptr) return Fail(cudaErrorInvalidValue);
  SIMCUDA_NEED_CONTEXT();
  CUDA_EXTERNAL_MEMORY_BUFFER_DESC wanted{};
  wanted.offset = description->offset;
  wanted.size = description->size;
  wanted.flags = description->flags;
  return Check(
      Driver().cuExternalMemoryGetMappedBuffer(reinterpret_cast<CUdeviceptr*>(pointer), Handle(memory), &wanted));
}

cudaError_t cudaExternalMemoryGetMappedMipmappedArray(cudaMipmappedArray_t* array, cudaExternalMemory_t memory,
                                                      const cudaExternalMemoryMipmappedArrayDesc* description) {
  if (description == nullptr) return Fail(cudaErrorInvalidValue);
  SIMCUDA_NEED_CONTEXT();
  CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC wanted{};
  wanted.offset = description->offset;
  wanted.numLevels = description->numLevels;
  if (!DescribeArray(&description->formatDesc, description->extent, description->flags, &wanted.arrayDesc)) {
    return Fail(cudaErrorInvalidValue);
  }
  return Check(Driver().cuExternalMemoryGetMappedMipmappedArray(reinterpret_cast<CUmipmappedArray*>(array),
                                                                Handle(memory), &wanted));
}

cudaError_t cudaDestroyExternalMemory(cudaExternalMemory_t memory) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuDestroyExternalMemory(Handle(memory)));
}

}  // extern "C"
