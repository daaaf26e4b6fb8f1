// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Stream-ordered memory of the default pool: three blocks, two of them freed, all kept by the pool.
#include <cuda_runtime.h>

int main() {
  cudaMemPool_t pool = nullptr;
  if (cudaDeviceGetDefaultMemPool(&pool, 0) != cudaSuccess) return 1;
  unsigned long long threshold = ~0ull;
  if (cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold) != cudaSuccess) return 2;
  void* blocks[3] = {};
  for (void*& block : blocks) {
    if (cudaMallocAsync(&block, 20 << 20, nullptr) != cudaSuccess) return 3;
  }
  if (cudaFreeAsync(blocks[0], nullptr) != cudaSuccess || cudaFreeAsync(blocks[1], nullptr) != cudaSuccess) return 4;
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 5;
}
