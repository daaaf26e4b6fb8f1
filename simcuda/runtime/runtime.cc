// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "simcuda/runtime/runtime.h"

#include <dlfcn.h>

#include <array>
#include <mutex>

#include "simcuda/base/note.h"

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

namespace {

// The thread's state: last error, current device, context.

constexpr int kMaxDevices = 64;

thread_local cudaError_t t_last_error = cudaSuccess;
thread_local int t_device = 0;

std::mutex g_mutex;
std::array<CUcontext, kMaxDevices> g_primaries{};  // retained once each, for the life of the process

}  // namespace

cudaError_t Fail(cudaError_t error) {
  t_last_error = error;
  return error;
}

cudaError_t LastError() { return t_last_error; }
void ClearLastError() { t_last_error = cudaSuccess; }
int CurrentDevice() { return t_device; }

cudaError_t EnsureDriver() { return LoadDriver(); }

cudaError_t UseDevice(int device) {
  if (const cudaError_t error = LoadDriver(); error != cudaSuccess) return error;
  int count = 0;
  if (const CUresult result = Driver().cuDeviceGetCount(&count); result != CUDA_SUCCESS)
    return static_cast<cudaError_t>(result);
  if (device < 0 || device >= count || device >= kMaxDevices) return cudaErrorInvalidDevice;
  CUcontext context = nullptr;
  {
    const std::lock_guard lock(g_mutex);
    CUcontext& primary = g_primaries[static_cast<size_t>(device)];
    int active = 0;
    unsigned flags = 0;
    if (primary != nullptr) Driver().cuDevicePrimaryCtxGetState(device, &flags, &active);
    if (active == 0) {  // never retained, or reset since
      const CUresult result = Driver().cuDevicePrimaryCtxRetain(&primary, device);
      if (result != CUDA_SUCCESS) return static_cast<cudaError_t>(result);
    }
    context = primary;
  }
  const CUresult result = Driver().cuCtxSetCurrent(context);
  if (result == CUDA_SUCCESS) t_device = device;
  return static_cast<cudaError_t>(result);
}

cudaError_t EnsureContext() {
  if (const cudaError_t error = LoadDriver(); error != cudaSuccess) return error;
  CUcontext context = nullptr;
  CUdevice device = 0;
  const bool usable = Driver().cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr &&
                      Driver().cuCtxGetDevice(&device) == CUDA_SUCCESS;
  return usable ? cudaSuccess : UseDevice(t_device);
}

}  // namespace simcuda

using namespace simcuda;  // NOLINT: C functions only

extern "C" {

// Errors.

cudaError_t cudaGetLastError() {
  const cudaError_t error = LastError();
  ClearLastError();
  return error;
}

cudaError_t cudaPeekAtLastError() { return LastError(); }

const char* cudaGetErrorName(cudaError_t error) {
  const char* const name = ErrorName(error);
  return name != nullptr ? name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  const char* const text = ErrorText(error);
  return text != nullptr ? text : cudaGetErrorName(error);
}

}  // extern "C"

namespace {

// cudaGetDriverEntryPoint: ends in the driver's cuGetProcAddress, so that an interposer of that sees it.

#if CUDART_VERSION < 12000
using cudaDriverEntryPointQueryResult = CUdriverProcAddressQueryResult;  // the runtime's came with CUDA 12
#endif

cudaError_t GetEntryPoint(const char* symbol, void** function, int version, unsigned long long flags,
                          cudaDriverEntryPointQueryResult* status) {
  SIMCUDA_NEED_DRIVER();
  if (symbol == nullptr || function == nullptr) return Fail(cudaErrorInvalidValue);
  CUdriverProcAddressQueryResult answer = CU_GET_PROC_ADDRESS_SUCCESS;
  const CUresult result = Driver().cuGetProcAddress(symbol, function, version, flags, &answer);
  if (status != nullptr) *status = static_cast<cudaDriverEntryPointQueryResult>(answer);
  return Check(result);
}

unsigned long long PerThread(unsigned long long flags) {
  return flags == cudaEnableDefault ? static_cast<unsigned long long>(cudaEnablePerThreadDefaultStream) : flags;
}

}  // namespace

extern "C" {

#if CUDART_VERSION >= 12000
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
  return GetEntryPoint(symbol, function, static_cast<int>(version), flags, status);
}

cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** function, unsigned version,
                                                  unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
  return GetEntryPoint(symbol, function, static_cast<int>(version), PerThread(flags), status);
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  return GetEntryPoint(symbol, function, CUDART_VERSION, flags, status);
}

cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function, unsigned long long flags,
                                         cudaDriverEntryPointQueryResult* status) {
  return GetEntryPoint(symbol, function, CUDART_VERSION, PerThread(flags), status);
}
#else
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags) {
  return GetEntryPoint(symbol, function, CUDART_VERSION, flags, nullptr);
}

cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function, unsigned long long flags) {
  return GetEntryPoint(symbol, function, CUDART_VERSION, PerThread(flags), nullptr);
}
#endif

}  // extern "C"
