// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Resolves the driver as a statically linked CUDA runtime does (dlopen, dlsym of cuGetProcAddress_v2, all else through
// its answer) and uses each kind of memory once: plain, pitched, managed, pinned, registered, stream-ordered, virtual.

#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace {

PFN_cuGetProcAddress_v12000 resolve;

template <typename Function>
Function Entry(const char* name, int version) {
  void* entry = nullptr;
  CUdriverProcAddressQueryResult found;
  if (resolve(name, &entry, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found) != CUDA_SUCCESS || entry == nullptr) {
    std::fprintf(stderr, "host_driver: no %s\n", name);
    std::exit(1);
  }
  return reinterpret_cast<Function>(entry);
}

void Check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "host_driver: %s failed with %d\n", what, static_cast<int>(result));
  std::exit(1);
}

void UsePlain() {
  const auto alloc = Entry<PFN_cuMemAlloc_v3020>("cuMemAlloc", 3020);
  const auto alloc_pitch = Entry<PFN_cuMemAllocPitch_v3020>("cuMemAllocPitch", 3020);
  const auto release = Entry<PFN_cuMemFree_v3020>("cuMemFree", 3020);
  CUdeviceptr kept, gone, pitched;
  std::size_t pitch;
  Check(alloc(&gone, 5 << 20), "cuMemAlloc");
  Check(alloc(&kept, 1000), "cuMemAlloc");
  Check(alloc_pitch(&pitched, &pitch, 1000, 64, 4), "cuMemAllocPitch");
  Check(release(gone), "cuMemFree");
  Check(release(0), "cuMemFree of nothing");
  if (alloc(&gone, std::size_t{1} << 60) != CUDA_ERROR_OUT_OF_MEMORY)
    Check(CUDA_ERROR_UNKNOWN, "an impossible request");
  if (release(kept + 12345) == CUDA_SUCCESS) Check(CUDA_ERROR_UNKNOWN, "freeing what was never allocated");
}

void UseHost() {
  const auto alloc = Entry<PFN_cuMemHostAlloc_v2020>("cuMemHostAlloc", 2020);
  const auto release = Entry<PFN_cuMemFreeHost_v2000>("cuMemFreeHost", 2000);
  const auto pin = Entry<PFN_cuMemHostRegister_v6050>("cuMemHostRegister", 6050);
  const auto unpin = Entry<PFN_cuMemHostUnregister_v4000>("cuMemHostUnregister", 4000);
  void* pinned;
  Check(alloc(&pinned, 1 << 20, 0), "cuMemHostAlloc");
  void* own = std::aligned_alloc(4096, 1 << 16);
  Check(pin(own, 1 << 16, 0), "cuMemHostRegister");
  Check(unpin(own), "cuMemHostUnregister");
  Check(release(pinned), "cuMemFreeHost");
  std::free(own);
}

void UseStreamOrdered() {
  const auto alloc = Entry<PFN_cuMemAllocAsync_v11020>("cuMemAllocAsync", 11020);
  const auto release = Entry<PFN_cuMemFreeAsync_v11020>("cuMemFreeAsync", 11020);
  CUdeviceptr first, second;
  Check(alloc(&first, 3 << 20, nullptr), "cuMemAllocAsync");
  Check(alloc(&second, 7 << 20, nullptr), "cuMemAllocAsync");
  Check(release(first, nullptr), "cuMemFreeAsync");
}

// Reserves 16 MiB of addresses and maps one physical piece into it twice; the memory counts once.
void UseVirtual() {
  constexpr std::size_t kPiece = 2 << 20;
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemGenericAllocationHandle handle;
  CUdeviceptr base;
  Check(Entry<PFN_cuMemAddressReserve_v10020>("cuMemAddressReserve", 10020)(&base, 8 * kPiece, 0, 0, 0),
        "cuMemAddressReserve");
  Check(Entry<PFN_cuMemCreate_v10020>("cuMemCreate", 10020)(&handle, kPiece, &prop, 0), "cuMemCreate");
  const auto map = Entry<PFN_cuMemMap_v10020>("cuMemMap", 10020);
  const auto unmap = Entry<PFN_cuMemUnmap_v10020>("cuMemUnmap", 10020);
  Check(map(base, kPiece, 0, handle, 0), "cuMemMap");
  Check(map(base + 4 * kPiece, kPiece, 0, handle, 0), "cuMemMap");
  Check(Entry<PFN_cuMemRelease_v10020>("cuMemRelease", 10020)(handle), "cuMemRelease");
  Check(unmap(base, kPiece), "cuMemUnmap");
  Check(unmap(base + 4 * kPiece, kPiece), "cuMemUnmap");
  Check(Entry<PFN_cuMemAddressFree_v10020>("cuMemAddressFree", 10020)(base, 8 * kPiece), "cuMemAddressFree");
}

}  // namespace

int main() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) {
    std::fprintf(stderr, "host_driver: %s\n", dlerror());
    return 1;
  }
  resolve = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(driver, "cuGetProcAddress_v2"));
  resolve = Entry<PFN_cuGetProcAddress_v12000>("cuGetProcAddress", 12000);
  Check(Entry<PFN_cuInit_v2000>("cuInit", 2000)(0), "cuInit");
  CUcontext context;
  Check(Entry<PFN_cuDevicePrimaryCtxRetain_v7000>("cuDevicePrimaryCtxRetain", 7000)(&context, 0),
        "cuDevicePrimaryCtxRetain");
  Check(Entry<PFN_cuCtxSetCurrent_v4000>("cuCtxSetCurrent", 4000)(context), "cuCtxSetCurrent");
  UsePlain();
  UseHost();
  UseStreamOrdered();
  UseVirtual();
  return 0;
}
