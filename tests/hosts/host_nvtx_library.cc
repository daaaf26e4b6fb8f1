// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A program that links NVTX as a library, as programs did before version 3.

#include <cuda_runtime_api.h>

extern "C" {
int nvtxRangePushA(const char* message);
int nvtxRangePop();
void nvtxMarkA(const char* message);
}

int main() {
  if (nvtxRangePushA("old outer") != 0 || nvtxRangePushA("old inner") != 1) return 2;  // the library's own answers
  void* pointer = nullptr;
  if (cudaMalloc(&pointer, 1 << 20) != cudaSuccess) return 1;
  nvtxMarkA("old mark");
  cudaFree(pointer);
  nvtxRangePop();
  nvtxRangePop();
  return 0;
}
