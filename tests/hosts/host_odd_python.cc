// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// host_odd_python VERSION: looks like an interpreter of that version to who asks for its functions, and is none. Takes
// memory from the driver.

#include <cuda.h>

namespace {
const char* g_version = "";
}

#define GPUMEM_EXPORTED extern "C" __attribute__((visibility("default"), used))

GPUMEM_EXPORTED const char* Py_GetVersion() { return g_version; }
GPUMEM_EXPORTED void* PyGILState_GetThisThreadState() { return nullptr; }

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  g_version = argv[1];
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr address = 0;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS) return 1;
  if (cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS) return 1;
  return cuMemAlloc(&address, 1 << 20) == CUDA_SUCCESS ? 0 : 1;
}
