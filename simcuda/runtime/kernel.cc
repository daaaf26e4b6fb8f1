// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What nvcc-compiled host code needs: registration of kernels and variables, launches, and questions about kernels.
//
// Registration happens in static initialisers, tens of thousands of names in a PyTorch process, so it only appends to a
// list; the index by host stub is built when the first kernel is looked up.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "simcuda/runtime/runtime.h"

using namespace simcuda;  // NOLINT: C functions only below

namespace simcuda {
namespace {

struct Kernel {
  const char* name = nullptr;
  CUfunction function = nullptr;
};

struct Variable {
  size_t size = 0;
  uint64_t address = 0;
  bool managed = false;
};

struct Registry {
  std::mutex mutex;
  std::vector<std::pair<const void*, const char*>> fresh;  // registered, not yet indexed
  std::unordered_map<const void*, Kernel> kernels;
  std::unordered_map<const void*, Variable> variables;
  CUlibrary library = nullptr;
};

Registry& GetRegistry() {
  static auto* const registry = new Registry();  // used by destructors of other libraries
  return *registry;
}

}  // namespace

CUfunction FindFunction(const void* stub) {
  Registry& registry = GetRegistry();
  const std::lock_guard lock(registry.mutex);
  if (!registry.fresh.empty()) {
    registry.kernels.reserve(registry.kernels.size() + registry.fresh.size());
    for (const auto& [host, name] : registry.fresh) registry.kernels[host] = {name, nullptr};
    registry.fresh.clear();
  }
  const auto found = registry.kernels.find(stub);
  if (found == registry.kernels.end()) return nullptr;
  Kernel& kernel = found->second;
  if (kernel.function != nullptr) return kernel.function;
  static const char kNoImage[64] = {};
  if (registry.library == nullptr) {
    Driver().cuLibraryLoadData(&registry.library, kNoImage, nullptr, nullptr, 0, nullptr, nullptr, 0);
  }
  CUkernel handle = nullptr;
  if (Driver().cuLibraryGetKernel(&handle, registry.library, kernel.name) != CUDA_SUCCESS) return nullptr;
  Driver().cuKernelGetFunction(&kernel.function, handle);
  return kernel.function;
}

}  // namespace simcuda

namespace {

// A host stub, or a kernel or function handle, which newer programs pass in its place.
CUfunction Function(const void* stub_or_handle) {
  const CUfunction function = FindFunction(stub_or_handle);
  return function != nullptr ? function : reinterpret_cast<CUfunction>(const_cast<void*>(stub_or_handle));
}

bool IsLaunchable(const dim3& grid, const dim3& block) {
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  return grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.y <= 65535 && grid.z <= 65535 && threads > 0 && threads <= 1024;
}

cudaError_t Launch(const void* stub, const dim3& grid, const dim3& block, size_t shared_bytes, cudaStream_t stream,
                   void** arguments) {
  SIMCUDA_NEED_CONTEXT();
  if (stub == nullptr) return Fail(cudaErrorInvalidDeviceFunction);
  if (!IsLaunchable(grid, block)) return Fail(cudaErrorInvalidConfiguration);
  return Check(Driver().cuLaunchKernel(Function(stub), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                       static_cast<unsigned>(shared_bytes), stream, arguments, nullptr));
}

struct CallConfiguration {
  dim3 grid, block;
  size_t shared_bytes;
  void* stream;
};
thread_local std::vector<CallConfiguration>* t_configurations = nullptr;

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) { return static_cast<void**>(std::calloc(1, sizeof(void*))); }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** handle) { std::free(handle); }
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void**, const char* stub, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  Registry& registry = GetRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.fresh.emplace_back(stub, name);
}

void __cudaRegisterVar(void**, char* host, char*, const char*, int, size_t size, int, int) {
  Registry& registry = GetRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.variables[host] = {size, 0, false};
}

void __cudaRegisterManagedVar(void**, void** host, char*, const char*, int, size_t size, int, int) {
  *host = std::calloc(1, size);
  Registry& registry = GetRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.variables[host] = {size, reinterpret_cast<uint64_t>(*host), true};
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void* stream) {
  if (t_configurations == nullptr) t_configurations = new std::vector<CallConfiguration>();
  t_configurations->push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  if (t_configurations == nullptr || t_configurations->empty()) return Fail(cudaErrorMissingConfiguration);
  const CallConfiguration configuration = t_configurations->back();
  t_configurations->pop_back();
  *grid = configuration.grid;
  *block = configuration.block;
  *shared_bytes = configuration.shared_bytes;
  *static_cast<void**>(stream) = configuration.stream;
  return cudaSuccess;
}

#if CUDART_VERSION >= 12000
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                               cudaStream_t stream) {
  return Launch(kernel, grid, block, shared_bytes, stream, arguments);
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                                    cudaStream_t stream) {
  return Launch(kernel, grid, block, shared_bytes, stream != nullptr ? stream : cudaStreamPerThread, arguments);
}

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* stub) { return __cudaGetKernel(kernel, stub); }
#endif

cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                             cudaStream_t stream) {
  return Launch(stub, grid, block, shared_bytes, stream, arguments);
}

cudaError_t cudaLaunchCooperativeKernel(const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                                        cudaStream_t stream) {
  return Launch(stub, grid, block, shared_bytes, stream, arguments);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* stub, void** arguments) {
  if (config == nullptr) return Fail(cudaErrorInvalidValue);
  return Launch(stub, config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream, arguments);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* stub) {
  SIMCUDA_NEED_CONTEXT();
  *function = FindFunction(stub);
  return *function != nullptr ? cudaSuccess : Fail(cudaErrorInvalidDeviceFunction);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* stub) {
  SIMCUDA_NEED_CONTEXT();
  const CUfunction function = Function(stub);
  if (attributes == nullptr || function == nullptr) return Fail(cudaErrorInvalidDeviceFunction);
  *attributes = {};
  const auto get = [function](CUfunction_attribute attribute) {
    int value = 0;
    Driver().cuFuncGetAttribute(&value, attribute, function);
    return value;
  };
  attributes->maxThreadsPerBlock = get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  attributes->numRegs = get(CU_FUNC_ATTRIBUTE_NUM_REGS);
  attributes->ptxVersion = get(CU_FUNC_ATTRIBUTE_PTX_VERSION);
  attributes->binaryVersion = get(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  attributes->maxDynamicSharedSizeBytes = get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* stub, cudaFuncAttribute attribute, int value) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuFuncSetAttribute(Function(stub), static_cast<CUfunction_attribute>(attribute), value));
}

cudaError_t cudaFuncSetCacheConfig(const void* stub, cudaFuncCache config) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuFuncSetCacheConfig(Function(stub), static_cast<CUfunc_cache>(config)));
}

cudaError_t cudaFuncGetName(const char** name, const void* stub) {
  SIMCUDA_NEED_CONTEXT();
  const CUfunction function = FindFunction(stub);
  return function != nullptr ? Check(Driver().cuFuncGetName(name, function)) : Fail(cudaErrorInvalidDeviceFunction);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* stub, int block_size,
                                                                   size_t dynamic_bytes, unsigned flags) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, Function(stub), block_size,
                                                                             dynamic_bytes, flags));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* stub, int block_size,
                                                          size_t dynamic_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, stub, block_size, dynamic_bytes, 0);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* stub, int blocks, int block_size) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuOccupancyAvailableDynamicSMemPerBlock(bytes, Function(stub), blocks, block_size));
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* stub, const cudaLaunchConfig_t*) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuOccupancyMaxActiveClusters(clusters, Function(stub), nullptr));
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* stub, const cudaLaunchConfig_t*) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuOccupancyMaxPotentialClusterSize(size, Function(stub), nullptr));
}

cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  SIMCUDA_NEED_CONTEXT();
  Registry& registry = GetRegistry();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.variables.find(symbol);
  if (found == registry.variables.end()) return Fail(cudaErrorInvalidSymbol);
  Variable& variable = found->second;
  if (variable.address == 0) {
    using MakeStatic = uint64_t (*)(uint64_t);
    static const auto make = reinterpret_cast<MakeStatic>(::dlsym(Driver().library, "simcuda_static"));
    if (make == nullptr) return Fail(cudaErrorNotSupported);
    variable.address = make(variable.size);
  }
  *pointer = reinterpret_cast<void*>(variable.address);
  return variable.address != 0 ? cudaSuccess : Fail(cudaErrorMemoryAllocation);
}

cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
  Registry& registry = GetRegistry();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.variables.find(symbol);
  if (found == registry.variables.end()) return Fail(cudaErrorInvalidSymbol);
  *size = found->second.size;
  return cudaSuccess;
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* source, size_t size, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  void* target = nullptr;
  if (const cudaError_t error = cudaGetSymbolAddress(&target, symbol); error != cudaSuccess) return error;
  return cudaMemcpyAsync(static_cast<char*>(target) + offset, source, size, kind, stream);
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* source, size_t size, size_t offset,
                               cudaMemcpyKind kind) {
  return cudaMemcpyToSymbolAsync(symbol, source, size, offset, kind, nullptr);
}

cudaError_t cudaMemcpyFromSymbolAsync(void* target, const void* symbol, size_t size, size_t offset, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  void* source = nullptr;
  if (const cudaError_t error = cudaGetSymbolAddress(&source, symbol); error != cudaSuccess) return error;
  return cudaMemcpyAsync(target, static_cast<char*>(source) + offset, size, kind, stream);
}

cudaError_t cudaMemcpyFromSymbol(void* target, const void* symbol, size_t size, size_t offset, cudaMemcpyKind kind) {
  return cudaMemcpyFromSymbolAsync(target, symbol, size, offset, kind, nullptr);
}

}  // extern "C"
