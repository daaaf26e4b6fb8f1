// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The thread's state: last error, current device, context.
#include <array>
#include <mutex>

#include "simcuda/base/note.h"
#include "simcuda/runtime/runtime.h"

namespace simcuda {
namespace {

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
