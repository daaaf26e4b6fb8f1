// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Uses CUDA in a way that the recorder sees (11 MiB through the driver) and in one that it may not:
//
//   unseen_host plain | deepbind PLUGIN | late PLUGIN | namespace PLUGIN | second DRIVER | alone PLUGIN | heap - |
//               reads -
//
// With a third argument it waits for the end of its input. `late`: the plugin's runtime is loaded before. `alone`:
// nothing but the plugin uses CUDA. `heap`: function pointers taken before CUDA starts, kept on the heap. `reads`: a
// function found in the driver's symbol table.

#include <cuda.h>
#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstring>
#include <memory>

namespace {

template <typename Function>
Function Find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

struct Functions {
  decltype(&cuInit) init;
  decltype(&cuDevicePrimaryCtxRetain) retain;
  decltype(&cuCtxSetCurrent) set_current;
  decltype(&cuMemAlloc) allocate;
};

Functions FunctionsOf(void* driver) {
  return {Find<decltype(&cuInit)>(driver, "cuInit"),
          Find<decltype(&cuDevicePrimaryCtxRetain)>(driver, "cuDevicePrimaryCtxRetain"),
          Find<decltype(&cuCtxSetCurrent)>(driver, "cuCtxSetCurrent"),
          Find<decltype(&cuMemAlloc)>(driver, "cuMemAlloc_v2")};
}

// On the device's primary context.
int UseThrough(const Functions& functions, size_t bytes) {
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  if (functions.init == nullptr || functions.init(0) != CUDA_SUCCESS || functions.retain(&context, 0) != CUDA_SUCCESS)
    return 70;
  functions.set_current(context);
  return functions.allocate(&memory, bytes) == CUDA_SUCCESS ? 0 : 71;
}

int Use(void* driver, size_t bytes) { return UseThrough(FunctionsOf(driver), bytes); }

void* OrdinaryDriver() { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); }

int UseOldPointers() {
  const auto kept = std::make_unique<Functions>(FunctionsOf(OrdinaryDriver()));
  return UseThrough(*kept, 3 << 20);
}

// Reads the driver's own table of symbols, which the linkers put right before that of the names.
int UseByReading() {
  const link_map* map = nullptr;
  if (dlinfo(OrdinaryDriver(), RTLD_DI_LINKMAP, &map) != 0) return 73;
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
  }
  for (; symbols != nullptr && static_cast<const void*>(symbols) < names; ++symbols) {
    if (std::strcmp(names + symbols->st_name, "cuMemAlloc_v2") != 0) continue;
    CUdeviceptr memory = 0;
    const auto allocate = reinterpret_cast<decltype(&cuMemAlloc)>(map->l_addr + symbols->st_value);
    return allocate(&memory, 3 << 20) == CUDA_SUCCESS ? 0 : 71;
  }
  return 74;
}

int UsePlugin(void* plugin) {
  const auto use = plugin == nullptr ? nullptr : Find<void (*)()>(plugin, "UsePluginMemory");
  if (use == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 72;
  use();
  return 0;
}

int Run(const char* way, const char* file) {
  if (std::strcmp(way, "reads") == 0) return UseByReading();
  if (std::strcmp(way, "second") == 0) return Use(dlopen(file, RTLD_NOW | RTLD_LOCAL), 3 << 20);
  if (std::strcmp(way, "namespace") == 0) return UsePlugin(dlmopen(LM_ID_NEWLM, file, RTLD_NOW));
  if (std::strcmp(way, "late") == 0) dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
  return UsePlugin(dlopen(file, RTLD_LAZY | RTLD_DEEPBIND));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 64;
  const bool alone = std::strcmp(argv[1], "alone") == 0;
  const bool heap = std::strcmp(argv[1], "heap") == 0;
  if (heap) {
    if (const int error = UseOldPointers()) return error;
  }
  if (!alone) {
    if (const int error = Use(OrdinaryDriver(), 11 << 20)) return error;
  }
  const int error = argc > 2 && !heap && std::strcmp(argv[1], "plain") != 0 ? Run(argv[1], argv[2]) : 0;
  std::puts("done");
  std::fflush(stdout);
  if (argc > 3) std::getchar();
  return error;
}
