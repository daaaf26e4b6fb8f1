// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A library linked against libcudart, as PyTorch's are; the host loads it with RTLD_LOCAL, so that neither is in the
// global scope.

#include <cstddef>

extern "C" int cudaMalloc(void** out, size_t bytes);
extern "C" int cudaFree(void* address);

extern "C" __attribute__((visibility("default"))) int UseRuntime(int count) {
  for (int i = 0; i < count; ++i) {
    void* address = nullptr;
    if (cudaMalloc(&address, 4096) != 0 || cudaFree(address) != 0) return 1;
  }
  return cudaFree(nullptr);
}
