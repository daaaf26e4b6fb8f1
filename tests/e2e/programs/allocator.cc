// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// An allocator as people plug it into PyTorch (torch.cuda.memory.CUDAPluggableAllocator), for pluggable.py.

#include <cuda_runtime_api.h>

extern "C" __attribute__((visibility("default"))) void* test_malloc(size_t bytes, int, cudaStream_t stream) {
  void* address = nullptr;
  return cudaMallocAsync(&address, bytes, stream) == cudaSuccess ? address : nullptr;
}

extern "C" __attribute__((visibility("default"))) void test_free(void* address, size_t, int, cudaStream_t stream) {
  cudaFreeAsync(address, stream);
}
