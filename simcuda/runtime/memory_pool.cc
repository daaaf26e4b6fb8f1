// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Stream-ordered memory and its pools. The per-thread-stream forms go to the driver's own.
#include "simcuda/runtime/runtime.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

CUdeviceptr* OutOfPool(void** pointer) { return reinterpret_cast<CUdeviceptr*>(pointer); }

CUmemLocation Place(const cudaMemLocation& location) {
  return {static_cast<CUmemLocationType>(location.type), location.id};
}

template <typename Allocate>
cudaError_t AllocateAsync(void** pointer, size_t size, Allocate allocate) {
  if (pointer == nullptr) return Fail(cudaErrorInvalidValue);
  SIMCUDA_NEED_CONTEXT();
  if (size == 0) {
    *pointer = nullptr;
    return cudaSuccess;
  }
  return Check(allocate());
}

}  // namespace

extern "C" {

cudaError_t cudaMallocAsync(void** pointer, size_t size, cudaStream_t stream) {
  return AllocateAsync(pointer, size, [=] { return Driver().cuMemAllocAsync(OutOfPool(pointer), size, stream); });
}

cudaError_t cudaMallocAsync_ptsz(void** pointer, size_t size, cudaStream_t stream) {
  return AllocateAsync(pointer, size, [=] { return Driver().cuMemAllocAsync_ptsz(OutOfPool(pointer), size, stream); });
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
  return AllocateAsync(pointer, size,
                       [=] { return Driver().cuMemAllocFromPoolAsync(OutOfPool(pointer), size, pool, stream); });
}

cudaError_t cudaMallocFromPoolAsync_ptsz(void** pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
  return AllocateAsync(pointer, size,
                       [=] { return Driver().cuMemAllocFromPoolAsync_ptsz(OutOfPool(pointer), size, pool, stream); });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuMemFreeAsync(Pointer(pointer), stream));
}

cudaError_t cudaFreeAsync_ptsz(void* pointer, cudaStream_t stream) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuMemFreeAsync_ptsz(Pointer(pointer), stream));
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuDeviceGetDefaultMemPool(pool, device));
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuDeviceGetMemPool(pool, device));
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuDeviceSetMemPool(device, pool));
}

#if CUDART_VERSION >= 13000
cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* pool, cudaMemLocation* location, cudaMemAllocationType type) {
  SIMCUDA_NEED_DRIVER();
  CUmemLocation place = Place(*location);
  return Check(Driver().cuMemGetDefaultMemPool(pool, &place, static_cast<CUmemAllocationType>(type)));
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t* pool, cudaMemLocation* location, cudaMemAllocationType type) {
  SIMCUDA_NEED_DRIVER();
  CUmemLocation place = Place(*location);
  return Check(Driver().cuMemGetMemPool(pool, &place, static_cast<CUmemAllocationType>(type)));
}

cudaError_t cudaMemSetMemPool(cudaMemLocation* location, cudaMemAllocationType type, cudaMemPool_t pool) {
  SIMCUDA_NEED_DRIVER();
  CUmemLocation place = Place(*location);
  return Check(Driver().cuMemSetMemPool(&place, static_cast<CUmemAllocationType>(type), pool));
}

#endif

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  if (properties == nullptr) return Fail(cudaErrorInvalidValue);
  SIMCUDA_NEED_DRIVER();
  CUmemPoolProps driver_properties{};
  driver_properties.allocType = static_cast<CUmemAllocationType>(properties->allocType);
  driver_properties.handleTypes = static_cast<CUmemAllocationHandleType>(properties->handleTypes);
  driver_properties.location = Place(properties->location);
#if CUDART_VERSION >= 12020
  driver_properties.maxSize = properties->maxSize;
#endif
  return Check(Driver().cuMemPoolCreate(pool, &driver_properties));
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuMemPoolDestroy(pool));
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep_bytes) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuMemPoolTrimTo(pool, keep_bytes));
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value));
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value));
}

cudaError_t cudaMemPoolExportToShareableHandle(void* shareable, cudaMemPool_t pool, cudaMemAllocationHandleType type,
                                               unsigned flags) {
  SIMCUDA_NEED_DRIVER();
  return Check(
      Driver().cuMemPoolExportToShareableHandle(shareable, pool, static_cast<CUmemAllocationHandleType>(type), flags));
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t* pool, void* shareable, cudaMemAllocationHandleType type,
                                                 unsigned flags) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuMemPoolImportFromShareableHandle(pool, shareable,
                                                           static_cast<CUmemAllocationHandleType>(type), flags));
}

cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData* data, void* pointer) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuMemPoolExportPointer(reinterpret_cast<CUmemPoolPtrExportData*>(data), Pointer(pointer)));
}

cudaError_t cudaMemPoolImportPointer(void** pointer, cudaMemPool_t pool, cudaMemPoolPtrExportData* data) {
  SIMCUDA_NEED_CONTEXT();
  return Check(
      Driver().cuMemPoolImportPointer(OutOfPool(pointer), pool, reinterpret_cast<CUmemPoolPtrExportData*>(data)));
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* descriptions, size_t count) {
  SIMCUDA_NEED_DRIVER();  // the two APIs lay the description out alike
  return Check(Driver().cuMemPoolSetAccess(pool, reinterpret_cast<const CUmemAccessDesc*>(descriptions), count));
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool, cudaMemLocation* location) {
  SIMCUDA_NEED_DRIVER();
  CUmemLocation place = Place(*location);
  return Check(Driver().cuMemPoolGetAccess(reinterpret_cast<CUmemAccess_flags*>(flags), pool, &place));
}

}  // extern "C"
