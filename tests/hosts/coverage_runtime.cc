// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Calls every function of the runtime that is hooked, bound by the loader as a program's calls are, and prints a line
// for each call: <function> <kind of event that a success makes, or -> <result>.

#define __CUDA_API_VERSION_INTERNAL
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

namespace {

cudaError_t Say(const char* name, const char* kind, cudaError_t result) {
  std::printf("%s %s %d\n", name, kind, static_cast<int>(result));
  std::fflush(stdout);
  return result;
}

#define CALL(kind, name, ...) Say(#name, kind, name(__VA_ARGS__))

constexpr size_t kPiece = 2 << 20;

void UseLinear() {
  void* address = nullptr;
  size_t pitch = 0;
  cudaPitchedPtr box{};
  if (CALL("alloc", cudaMalloc, &address, 5000) == cudaSuccess) CALL("free", cudaFree, address);
  CALL("-", cudaFree, nullptr);
  CALL("alloc", cudaMalloc, &address, size_t{1} << 60);
  if (CALL("alloc", cudaMallocPitch, &address, &pitch, 1000, 64) == cudaSuccess) CALL("free", cudaFree, address);
  if (CALL("alloc", cudaMalloc3D, &box, cudaExtent{1000, 8, 4}) == cudaSuccess) CALL("free", cudaFree, box.ptr);
  if (CALL("alloc", cudaMallocManaged, &address, kPiece, cudaMemAttachGlobal) == cudaSuccess) {
    CALL("free", cudaFree, address);
  }
}

void UseHost() {
  void* pinned = nullptr;
  void* own = std::aligned_alloc(4096, 1 << 16);
  if (CALL("alloc", cudaMallocHost, &pinned, 4096) == cudaSuccess) CALL("free", cudaFreeHost, pinned);
  if (CALL("alloc", cudaHostAlloc, &pinned, 4096, 0) == cudaSuccess) CALL("free", cudaFreeHost, pinned);
  if (CALL("host_register", cudaHostRegister, own, 1 << 16, 0) == cudaSuccess) {
    CALL("host_unregister", cudaHostUnregister, own);
  }
  std::free(own);
}

void UseArrays() {
  const cudaChannelFormatDesc format{32, 32, 0, 0, cudaChannelFormatKindFloat};
  cudaArray_t array = nullptr;
  cudaMipmappedArray_t mipmap = nullptr;
  if (CALL("alloc", cudaMallocArray, &array, &format, 64, 64, 0) == cudaSuccess) CALL("free", cudaFreeArray, array);
  if (CALL("alloc", cudaMalloc3DArray, &array, &format, cudaExtent{16, 16, 16}, 0) == cudaSuccess) {
    CALL("free", cudaFreeArray, array);
  }
  if (CALL("alloc", cudaMallocMipmappedArray, &mipmap, &format, cudaExtent{64, 64, 0}, 3, 0) == cudaSuccess) {
    CALL("free", cudaFreeMipmappedArray, mipmap);
  } else {
    CALL("free", cudaFreeMipmappedArray, reinterpret_cast<cudaMipmappedArray_t>(0x1234));
  }
}

void UsePools() {
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  void* address = nullptr;
  CALL("pool_create", cudaMemPoolCreate, &pool, &props);
  CALL("alloc", cudaMallocFromPoolAsync, &address, kPiece, pool, nullptr);
  CALL("free", cudaFreeAsync, address, nullptr);
  CALL("alloc", cudaMallocFromPoolAsync_ptsz, &address, kPiece, pool, nullptr);
  CALL("free", cudaFreeAsync_ptsz, address, nullptr);
  CALL("alloc", cudaMallocAsync, &address, kPiece, nullptr);
  CALL("free", cudaFree, address);  // another name than it came by
  CALL("alloc", cudaMallocAsync_ptsz, &address, kPiece, nullptr);
  CALL("free", cudaFreeAsync, address, nullptr);
  CALL("pool_trim", cudaMemPoolTrimTo, pool, 0);
  CALL("pool_destroy", cudaMemPoolDestroy, pool);
}

void UseOthers() {
  void* own = nullptr;
  void* opened = nullptr;
  cudaIpcMemHandle_t name{};
  CALL("alloc", cudaMalloc, &own, kPiece);
  cudaIpcGetMemHandle(&name, own);
  if (CALL("import", cudaIpcOpenMemHandle, &opened, name, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess) {
    CALL("import_close", cudaIpcCloseMemHandle, opened);
  } else {
    CALL("import_close", cudaIpcCloseMemHandle, own);
  }
  CALL("free", cudaFree, own);
}

}  // namespace

int main() {
  UseLinear();
  UseHost();
  UseArrays();
  UsePools();
  UseOthers();
  void* left = nullptr;
  CALL("alloc", cudaMalloc, &left, 7 * kPiece);  // goes with its device
  CALL("device_reset", cudaDeviceReset);
  return 0;
}
