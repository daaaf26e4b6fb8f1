// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the files of the runtime API share: the last error, the current device, and the lazily made primary context.
// They are compiled once for each major version of CUDA, against its headers; CUDART_VERSION tells where forms differ.
//
// Thread-safety: all functions may be called from any thread; last error and current device belong to the thread.
// Failure mode: errors are returned and remembered for cudaGetLastError.
// Example:
//   cudaError_t cudaFree(void* pointer) {
//     if (const cudaError_t error = EnsureContext(); error != cudaSuccess) return Fail(error);
//     return Check(Driver().cuMemFree(Pointer(pointer)));
//   }
#ifndef SIMCUDA_RUNTIME_RUNTIME_H_
#define SIMCUDA_RUNTIME_RUNTIME_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "simcuda/runtime/driver_table.h"

namespace simcuda {

// Remembers the error for cudaGetLastError and returns it.
cudaError_t Fail(cudaError_t error);

// A driver result as the runtime's: the numbers agree since CUDA 10.1.
inline cudaError_t Check(CUresult result) {
  return result == CUDA_SUCCESS ? cudaSuccess : Fail(static_cast<cudaError_t>(result));
}

cudaError_t LastError();
void ClearLastError();

// The driver, without a context.
cudaError_t EnsureDriver();

// The driver, and a context current on this thread: the one that is, else the primary one of the thread's device.
cudaError_t EnsureContext();

int CurrentDevice();

// Makes the device's primary context current on this thread.
cudaError_t UseDevice(int device);

// "cudaErrorMemoryAllocation", or null for a number that is not a cudaError_t. Generated.
const char* ErrorName(cudaError_t error);

// The driver's shape of an array; false for a format that no array has.
bool DescribeArray(const cudaChannelFormatDesc* format, const cudaExtent& extent, unsigned flags,
                   CUDA_ARRAY3D_DESCRIPTOR* shape);

inline CUdeviceptr Pointer(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace simcuda

// Returns with the error unless the driver and a context are there.
#define SIMCUDA_NEED_CONTEXT()                                                            \
  if (const cudaError_t need_error = simcuda::EnsureContext(); need_error != cudaSuccess) \
  return simcuda::Fail(need_error)
#define SIMCUDA_NEED_DRIVER()                                                            \
  if (const cudaError_t need_error = simcuda::EnsureDriver(); need_error != cudaSuccess) \
  return simcuda::Fail(need_error)

#endif  // SIMCUDA_RUNTIME_RUNTIME_H_
