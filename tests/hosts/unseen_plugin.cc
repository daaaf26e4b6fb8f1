// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A library that is linked with the driver and asks it for memory, as processes_plugin asks the runtime.

#include <cuda.h>

extern "C" __attribute__((visibility("default"))) void UsePluginMemory() {
  CUcontext context = nullptr;
  CUdeviceptr kept = 0, gone = 0;
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS) return;
  cuCtxSetCurrent(context);
  cuMemAlloc(&kept, 3 << 20);
  if (cuMemAlloc(&gone, 5 << 20) == CUDA_SUCCESS) cuMemFree(gone);
}
