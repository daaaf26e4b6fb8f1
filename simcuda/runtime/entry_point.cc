// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// cudaGetDriverEntryPoint: ends in the driver's cuGetProcAddress, so that an interposer of that sees it.
#include "simcuda/runtime/runtime.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

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
