// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Uses CUDA in a way that the recorder sees (11 MiB through the driver) and in one that it may not:
//
//   unseen_host plain | deepbind PLUGIN | late PLUGIN | namespace PLUGIN | second DRIVER | alone PLUGIN
//
// With a third argument it waits for the end of its input. `late`: the plugin's runtime is loaded before. `alone`:
// nothing but the plugin uses CUDA.

#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

namespace {

template <typename Function>
Function Find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

// What `driver` gives, on the device's primary context.
int Use(void* driver, size_t bytes) {
  const auto init = Find<decltype(&cuInit)>(driver, "cuInit");
  const auto retain = Find<decltype(&cuDevicePrimaryCtxRetain)>(driver, "cuDevicePrimaryCtxRetain");
  const auto set_current = Find<decltype(&cuCtxSetCurrent)>(driver, "cuCtxSetCurrent");
  const auto allocate = Find<decltype(&cuMemAlloc)>(driver, "cuMemAlloc_v2");
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  if (init == nullptr || init(0) != CUDA_SUCCESS || retain(&context, 0) != CUDA_SUCCESS) return 70;
  set_current(context);
  return allocate(&memory, bytes) == CUDA_SUCCESS ? 0 : 71;
}

int UsePlugin(void* plugin) {
  const auto use = plugin == nullptr ? nullptr : Find<void (*)()>(plugin, "UsePluginMemory");
  if (use == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 72;
  use();
  return 0;
}

int Run(const char* way, const char* file) {
  if (std::strcmp(way, "second") == 0) return Use(dlopen(file, RTLD_NOW | RTLD_LOCAL), 3 << 20);
  if (std::strcmp(way, "namespace") == 0) return UsePlugin(dlmopen(LM_ID_NEWLM, file, RTLD_NOW));
  if (std::strcmp(way, "late") == 0) dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
  return UsePlugin(dlopen(file, RTLD_LAZY | RTLD_DEEPBIND));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 64;
  const bool alone = std::strcmp(argv[1], "alone") == 0;
  if (!alone) {
    if (const int error = Use(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), 11 << 20)) return error;
  }
  const int error = argc > 2 && std::strcmp(argv[1], "plain") != 0 ? Run(argv[1], argv[2]) : 0;
  std::puts("done");
  std::fflush(stdout);
  if (argc > 3) std::getchar();
  return error;
}
