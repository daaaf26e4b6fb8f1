// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/runtime/driver_table.h"

#include <dlfcn.h>

#include <mutex>

namespace simcuda {
namespace {

constexpr int kRuntimeVersion = CUDART_VERSION;

DriverTable g_table;

CUresult Missing() { return CUDA_ERROR_NOT_SUPPORTED; }

void* Ask(const char* name, int version, cuuint64_t flags) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status;
  g_table.cuGetProcAddress(name, &address, version, flags, &status);
  return address != nullptr ? address : reinterpret_cast<void*>(&Missing);
}

template <typename Function>
void Resolve(Function* member, const char* name, int version, cuuint64_t flags) {
  *member = reinterpret_cast<Function>(Ask(name, version, flags));
}

void FillTable() {
#define SIMCUDA_RESOLVE(name, version) Resolve(&g_table.name, #name, version, 0);
#define SIMCUDA_RESOLVE_STREAM(name, version, per_thread_version, suffix) \
  Resolve(&g_table.name, #name, version, 0);                              \
  Ask(#name, per_thread_version, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  SIMCUDA_DRIVER_FUNCTIONS(SIMCUDA_RESOLVE)
  SIMCUDA_STREAM_FUNCTIONS(SIMCUDA_RESOLVE_STREAM)
#undef SIMCUDA_RESOLVE
#undef SIMCUDA_RESOLVE_STREAM
  constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  Resolve(&g_table.cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, kPerThread);
  Resolve(&g_table.cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020, kPerThread);
  Resolve(&g_table.cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, kPerThread);
}

// Finds cuGetProcAddress as the real runtime of this version does; null where the driver is too old for it.
#if CUDART_VERSION >= 12000
PFN_cuGetProcAddress_v12000 FindResolver() {
  const auto resolver = reinterpret_cast<PFN_cuGetProcAddress_v12000>(::dlsym(g_table.library, "cuGetProcAddress_v2"));
  if (resolver == nullptr) return nullptr;
  void* address = nullptr;
  CUdriverProcAddressQueryResult status;
  resolver("", &address, 0, 0, &status);  // the real runtime's probe
  resolver("cuGetProcAddress", &address, 11030, 0, &status);
  address = nullptr;
  if (resolver("cuGetProcAddress", &address, 12000, 0, &status) != CUDA_SUCCESS) return nullptr;
  return reinterpret_cast<PFN_cuGetProcAddress_v12000>(address);
}
#else
PFN_cuGetProcAddress_v11030 g_first_form = nullptr;

// The first form has no status and leaves the pointer alone where it knows nothing.
CUresult AskFirstForm(const char* name, void** function, int version, cuuint64_t flags,
                      CUdriverProcAddressQueryResult* status) {
  *function = nullptr;
  const CUresult result = g_first_form(name, function, version, flags);
  *status = result == CUDA_SUCCESS ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return result;
}

PFN_cuGetProcAddress_v12000 FindResolver() {
  const auto resolver = reinterpret_cast<PFN_cuGetProcAddress_v11030>(::dlsym(g_table.library, "cuGetProcAddress"));
  if (resolver == nullptr) return nullptr;
  void* address = nullptr;
  resolver("", &address, 0, 0);  // the real runtime's probe
  if (resolver("cuGetProcAddress", &address, 11030, 0) != CUDA_SUCCESS) return nullptr;
  g_first_form = reinterpret_cast<PFN_cuGetProcAddress_v11030>(address);
  return &AskFirstForm;
}
#endif

cudaError_t Load() {
  g_table.library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (g_table.library == nullptr) return cudaErrorInsufficientDriver;
  g_table.cuGetProcAddress = FindResolver();
  if (g_table.cuGetProcAddress == nullptr) return cudaErrorInsufficientDriver;
  FillTable();
  int version = 0;
  if (g_table.cuDriverGetVersion(&version) != CUDA_SUCCESS) return cudaErrorInsufficientDriver;
  if (version / 1000 < kRuntimeVersion / 1000) return cudaErrorInsufficientDriver;
  return static_cast<cudaError_t>(g_table.cuInit(0));
}

}  // namespace

const DriverTable& Driver() { return g_table; }

cudaError_t LoadDriver() {
  static std::once_flag once;
  static cudaError_t result = cudaErrorInitializationError;
  std::call_once(once, [] { result = Load(); });
  return result;
}

}  // namespace simcuda
