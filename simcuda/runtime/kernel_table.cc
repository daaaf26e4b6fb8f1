// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/runtime/kernel_table.h"

#include <link.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "simcuda/runtime/runtime.h"

namespace simcuda {

struct FatBinary {
  uintptr_t object = 0;            // where its shared object begins
  std::vector<int> architectures;  // empty: no name tells
  bool is_loaded = true;
};

namespace {

struct Kernel {
  const char* name = nullptr;
  const FatBinary* binary = nullptr;
  FoundKernel found;
};

struct Registered {
  const void* stub;
  const char* name;
  FatBinary* binary;
};

struct Registry {
  std::mutex mutex;
  std::vector<Registered> fresh;  // not yet in the index
  std::vector<FatBinary*> binaries;
  std::unordered_map<const void*, Kernel> kernels;
  std::unordered_map<uintptr_t, std::vector<int>> of_objects;
  CUlibrary library = nullptr;
};

Registry& GetRegistry() {
  static auto* const registry = new Registry();  // used by destructors of other libraries
  return *registry;
}

struct CodeRange {
  uintptr_t address, begin, end;
};

int FindObject(dl_phdr_info* info, size_t, void* data) {
  auto* const range = static_cast<CodeRange*>(data);
  uintptr_t begin = UINTPTR_MAX, end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    begin = std::min<uintptr_t>(begin, info->dlpi_addr + segment.p_vaddr);
    end = std::max<uintptr_t>(end, info->dlpi_addr + segment.p_vaddr + segment.p_memsz);
  }
  if (range->address < begin || range->address >= end) return 0;
  range->begin = begin;
  range->end = end;
  return 1;
}

// A list stands before "0_NS"; looking for that alone spares the parser most names.
std::vector<int> ArchitecturesOf(const char* name) {
  return std::strstr(name, "0_NS") == nullptr ? std::vector<int>() : ArchitecturesIn(name);
}

void ReadArchitectures(Registry* registry) {
  for (const auto& [stub, name, binary] : registry->fresh) {
    if (binary->is_loaded && binary->architectures.empty()) binary->architectures = ArchitecturesOf(name);
  }
  std::unordered_map<uintptr_t, std::map<std::vector<int>, size_t>> counts;
  for (const FatBinary* binary : registry->binaries) {
    if (binary->is_loaded && !binary->architectures.empty()) ++counts[binary->object][binary->architectures];
  }
  registry->of_objects.clear();
  for (const auto& [object, lists] : counts) {
    size_t most = 0;
    for (const auto& [list, count] : lists) {
      if (count <= most) continue;
      most = count;
      registry->of_objects[object] = list;
    }
  }
}

void Index(Registry* registry) {
  if (registry->fresh.empty()) return;
  ReadArchitectures(registry);
  registry->kernels.reserve(registry->kernels.size() + registry->fresh.size());
  for (const auto& [stub, name, binary] : registry->fresh) {
    if (binary->is_loaded) registry->kernels[stub] = {name, binary, {}};
  }
  registry->fresh.clear();
}

CodeVersion CodeOf(const Registry& registry, const Kernel& kernel) {
  std::vector<int> architectures = ArchitecturesOf(kernel.name);
  if (architectures.empty()) architectures = kernel.binary->architectures;
  if (const auto of_object = registry.of_objects.find(kernel.binary->object);
      architectures.empty() && of_object != registry.of_objects.end())
    architectures = of_object->second;
  int major = 0, minor = 0;
  Driver().cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CurrentDevice());
  Driver().cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, CurrentDevice());
  return Choose(architectures, major * 10 + minor);
}

}  // namespace

FatBinary* AddFatBinary(const void* image) {
  // Before the lock: whoever loads an object holds the loader's, and comes here from its initialisers.
  CodeRange range{reinterpret_cast<uintptr_t>(image), 0, 0};
  ::dl_iterate_phdr(&FindObject, &range);
  auto* const binary = new FatBinary{.object = range.begin, .architectures = {}};
  Registry& registry = GetRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.binaries.push_back(binary);
  return binary;
}

void AddKernel(FatBinary* binary, const void* stub, const char* name) {
  Registry& registry = GetRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.fresh.push_back({stub, name, binary});
}

void EndFatBinary(FatBinary* binary) {
  if (binary == nullptr) return;
  Registry& registry = GetRegistry();
  const std::lock_guard lock(registry.mutex);
  binary->is_loaded = false;
}

cudaError_t FindKernel(const void* stub, FoundKernel* found) {
  Registry& registry = GetRegistry();
  const std::lock_guard lock(registry.mutex);
  Index(&registry);
  *found = {};
  const auto entry = registry.kernels.find(stub);
  if (entry == registry.kernels.end()) return cudaSuccess;
  Kernel& kernel = entry->second;
  if (kernel.found.function == nullptr) {
    kernel.found.code = CodeOf(registry, kernel);
    if (kernel.found.code.binary == 0) return cudaErrorNoKernelImageForDevice;
    static const char kNoImage[64] = {};
    if (registry.library == nullptr)
      Driver().cuLibraryLoadData(&registry.library, kNoImage, nullptr, nullptr, 0, nullptr, nullptr, 0);
    CUkernel handle = nullptr;
    if (Driver().cuLibraryGetKernel(&handle, registry.library, kernel.name) != CUDA_SUCCESS) return cudaSuccess;
    Driver().cuKernelGetFunction(&kernel.found.function, handle);
  }
  *found = kernel.found;
  return cudaSuccess;
}

}  // namespace simcuda
