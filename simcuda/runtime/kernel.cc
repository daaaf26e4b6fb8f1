// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What nvcc-compiled host code needs: registration of kernels and variables, launches, and questions about kernels.
#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "simcuda/runtime/kernel_table.h"
#include "simcuda/runtime/runtime.h"

using namespace simcuda;  // NOLINT: C functions only below

namespace {

struct Variable {
  size_t size = 0;
  uint64_t address = 0;
  bool managed = false;
};

struct Variables {
  std::mutex mutex;
  std::unordered_map<const void*, Variable> by_host;
};

Variables& GetVariables() {
  static auto* const variables = new Variables();  // used by destructors of other libraries
  return *variables;
}

// A host stub, or a kernel or function handle, which newer programs pass in its place.
cudaError_t FindAny(const void* stub_or_handle, CUfunction* function) {
  FoundKernel kernel;
  if (const cudaError_t error = FindKernel(stub_or_handle, &kernel); error != cudaSuccess) return error;
  *function =
      kernel.function != nullptr ? kernel.function : reinterpret_cast<CUfunction>(const_cast<void*>(stub_or_handle));
  return cudaSuccess;
}

// A registered one alone.
cudaError_t FindRegistered(const void* stub, CUfunction* function) {
  FoundKernel kernel;
  if (const cudaError_t error = FindKernel(stub, &kernel); error != cudaSuccess) return error;
  *function = kernel.function;
  return kernel.function != nullptr ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

int Attribute(CUfunction function, CUfunction_attribute attribute) {
  int value = 0;
  Driver().cuFuncGetAttribute(&value, attribute, function);
  return value;
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
  CUfunction function = nullptr;
  if (const cudaError_t error = FindAny(stub, &function); error != cudaSuccess) return Fail(error);
  return Check(Driver().cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
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

void** __cudaRegisterFatBinary(void* image) { return reinterpret_cast<void**>(AddFatBinary(image)); }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** handle) { EndFatBinary(reinterpret_cast<FatBinary*>(handle)); }
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void** handle, const char* stub, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  AddKernel(reinterpret_cast<FatBinary*>(handle), stub, name);
}

void __cudaRegisterVar(void**, char* host, char*, const char*, int, size_t size, int, int) {
  Variables& variables = GetVariables();
  const std::lock_guard lock(variables.mutex);
  variables.by_host[host] = {size, 0, false};
}

void __cudaRegisterManagedVar(void**, void** host, char*, const char*, int, size_t size, int, int) {
  *host = std::calloc(1, size);
  Variables& variables = GetVariables();
  const std::lock_guard lock(variables.mutex);
  variables.by_host[host] = {size, reinterpret_cast<uint64_t>(*host), true};
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
  const cudaError_t error = FindRegistered(stub, function);
  return error == cudaSuccess ? cudaSuccess : Fail(error);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* stub) {
  SIMCUDA_NEED_CONTEXT();
  if (attributes == nullptr || stub == nullptr) return Fail(cudaErrorInvalidDeviceFunction);
  FoundKernel kernel;
  if (const cudaError_t error = FindKernel(stub, &kernel); error != cudaSuccess) return Fail(error);
  const bool is_registered = kernel.function != nullptr;
  const CUfunction function = is_registered ? kernel.function : reinterpret_cast<CUfunction>(const_cast<void*>(stub));
  *attributes = {};
  attributes->maxThreadsPerBlock = Attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  attributes->numRegs = Attribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS);
  attributes->ptxVersion = is_registered ? kernel.code.ptx : Attribute(function, CU_FUNC_ATTRIBUTE_PTX_VERSION);
  attributes->binaryVersion =
      is_registered ? kernel.code.binary : Attribute(function, CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  attributes->maxDynamicSharedSizeBytes = Attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* stub, cudaFuncAttribute attribute, int value) {
  SIMCUDA_NEED_CONTEXT();
  CUfunction function = nullptr;
  if (const cudaError_t error = FindAny(stub, &function); error != cudaSuccess) return Fail(error);
  return Check(Driver().cuFuncSetAttribute(function, static_cast<CUfunction_attribute>(attribute), value));
}

cudaError_t cudaFuncSetCacheConfig(const void* stub, cudaFuncCache config) {
  SIMCUDA_NEED_CONTEXT();
  CUfunction function = nullptr;
  if (const cudaError_t error = FindAny(stub, &function); error != cudaSuccess) return Fail(error);
  return Check(Driver().cuFuncSetCacheConfig(function, static_cast<CUfunc_cache>(config)));
}

cudaError_t cudaFuncGetName(const char** name, const void* stub) {
  SIMCUDA_NEED_CONTEXT();
  CUfunction function = nullptr;
  if (const cudaError_t error = FindRegistered(stub, &function); error != cudaSuccess) return Fail(error);
  return Check(Driver().cuFuncGetName(name, function));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* stub, int block_size,
                                                                   size_t dynamic_bytes, unsigned flags) {
  SIMCUDA_NEED_CONTEXT();
  CUfunction function = nullptr;
  if (const cudaError_t error = FindAny(stub, &function); error != cudaSuccess) return Fail(error);
  return Check(Driver().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size,
                                                                             dynamic_bytes, flags));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* stub, int block_size,
                                                          size_t dynamic_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, stub, block_size, dynamic_bytes, 0);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* stub, int blocks, int block_size) {
  SIMCUDA_NEED_CONTEXT();
  CUfunction function = nullptr;
  if (const cudaError_t error = FindAny(stub, &function); error != cudaSuccess) return Fail(error);
  return Check(Driver().cuOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, block_size));
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* stub, const cudaLaunchConfig_t*) {
  SIMCUDA_NEED_CONTEXT();
  CUfunction function = nullptr;
  if (const cudaError_t error = FindAny(stub, &function); error != cudaSuccess) return Fail(error);
  return Check(Driver().cuOccupancyMaxActiveClusters(clusters, function, nullptr));
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* stub, const cudaLaunchConfig_t*) {
  SIMCUDA_NEED_CONTEXT();
  CUfunction function = nullptr;
  if (const cudaError_t error = FindAny(stub, &function); error != cudaSuccess) return Fail(error);
  return Check(Driver().cuOccupancyMaxPotentialClusterSize(size, function, nullptr));
}

cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  SIMCUDA_NEED_CONTEXT();
  Variables& variables = GetVariables();
  const std::lock_guard lock(variables.mutex);
  const auto found = variables.by_host.find(symbol);
  if (found == variables.by_host.end()) return Fail(cudaErrorInvalidSymbol);
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
  Variables& variables = GetVariables();
  const std::lock_guard lock(variables.mutex);
  const auto found = variables.by_host.find(symbol);
  if (found == variables.by_host.end()) return Fail(cudaErrorInvalidSymbol);
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
