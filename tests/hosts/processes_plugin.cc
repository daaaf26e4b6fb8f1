// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A library that a program loads, lets use CUDA and unloads. With a destructor that uses CUDA when the process ends, in
// what may be long after everybody else's.

#include <cuda_runtime_api.h>

static void* g_kept;

extern "C" __attribute__((visibility("default"))) void UsePluginMemory() {
  void* gone = nullptr;
  if (g_kept == nullptr && cudaMalloc(&g_kept, 3 << 20) != cudaSuccess) return;
  if (cudaMalloc(&gone, 5 << 20) == cudaSuccess) cudaFree(gone);
}

__attribute__((destructor)) static void FreeKept() {
  cudaFree(g_kept);
  g_kept = nullptr;
}
