// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The thread's state: last error, current device, context.
#include <array>
#include <mutex>

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
