// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A preload that makes cudaMalloc out of virtual memory, so that it can take the physical memory away and give it back
// while the program keeps its pointers: what torch_memory_saver does.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <map>

namespace {

constexpr std::size_t kGranularity = 2 << 20;

struct Block {
  std::size_t bytes;
  CUmemGenericAllocationHandle handle;
};
std::map<CUdeviceptr, Block>* g_blocks;

template <typename Function>
Function* Driver(Function*, const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<Function*>(dlsym(library, name));
}
#define DRIVER(name) Driver(&name, #name)

void Check(CUresult result) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "preload_saver: %d\n", static_cast<int>(result));
  std::abort();
}

void Back(CUdeviceptr address, Block* block) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  Check(DRIVER(cuMemCreate)(&block->handle, block->bytes, &prop, 0));
  Check(DRIVER(cuMemMap)(address, block->bytes, 0, block->handle, 0));
}

void Unback(CUdeviceptr address, const Block& block) {
  Check(DRIVER(cuMemUnmap)(address, block.bytes));
  Check(DRIVER(cuMemRelease)(block.handle));
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  cudaFree(nullptr);  // makes the context
  Block block{(bytes + kGranularity - 1) / kGranularity * kGranularity, 0};
  CUdeviceptr address = 0;
  Check(DRIVER(cuMemAddressReserve)(&address, block.bytes, 0, 0, 0));
  Back(address, &block);
  if (g_blocks == nullptr) g_blocks = new std::map<CUdeviceptr, Block>;
  (*g_blocks)[address] = block;
  *out = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

__attribute__((visibility("default"))) cudaError_t cudaFree(void* pointer) {
  const auto address = reinterpret_cast<CUdeviceptr>(pointer);
  if (g_blocks == nullptr || g_blocks->count(address) == 0) {
    static const auto real = reinterpret_cast<cudaError_t (*)(void*)>(dlsym(RTLD_NEXT, "cudaFree"));
    return real(pointer);
  }
  const Block block = g_blocks->at(address);
  if (block.handle != 0) Unback(address, block);
  Check(DRIVER(cuMemAddressFree)(address, block.bytes));
  g_blocks->erase(address);
  return cudaSuccess;
}

__attribute__((visibility("default"))) void SaverPause() {
  for (auto& [address, block] : *g_blocks) {
    Unback(address, block);
    block.handle = 0;
  }
}

__attribute__((visibility("default"))) void SaverResume() {
  for (auto& [address, block] : *g_blocks) Back(address, &block);
}

}  // extern "C"
