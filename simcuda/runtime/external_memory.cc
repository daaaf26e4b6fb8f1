// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// External memory: imported, mapped as buffers and mipmapped arrays.
#include "simcuda/runtime/runtime.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

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
