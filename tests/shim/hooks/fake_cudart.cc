// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A libcudart.so.13 (and, built a second time, .12) of a few functions that reaches the driver as the real one does:
// dlopen, dlsym, cuGetProcAddress.

#include <dlfcn.h>

#include <cstddef>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

template <typename Function>
Function Driver(const char* name) {
  using Resolve = int (*)(const char*, void**, int, unsigned long long, int*);
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  static const auto first = reinterpret_cast<Resolve>(dlsym(library, "cuGetProcAddress_v2"));
  void* second = nullptr;
  first("cuGetProcAddress", &second, 12000, 0, nullptr);
  void* found = nullptr;
  reinterpret_cast<Resolve>(second)(name, &found, 13000, 0, nullptr);
  return reinterpret_cast<Function>(found);
}

void Initialize() {
  static const int result = Driver<int (*)(unsigned)>("cuInit")(0);
  (void)result;
}

}  // namespace

// How many allocations this very library was asked for.
static int g_calls;
EXPORT int FakeRuntimeCalls() { return g_calls; }

EXPORT int cudaMalloc(void** out, size_t bytes) {
  Initialize();
  ++g_calls;
  static const auto alloc = Driver<int (*)(unsigned long long*, size_t)>("cuMemAlloc");
  return alloc(reinterpret_cast<unsigned long long*>(out), bytes);
}

EXPORT int cudaFree(void* address) {
  Initialize();
  static const auto release = Driver<int (*)(unsigned long long)>("cuMemFree");
  return release(reinterpret_cast<unsigned long long>(address));
}
