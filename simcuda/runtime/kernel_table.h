// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The kernels that nvcc-compiled host code registers: from the host stub to the driver's function, and for which
// architecture the code was compiled that this device runs.
//
// Registration happens in static initialisers, tens of thousands of names in a PyTorch process, so it only appends to a
// list; the index by host stub is made when the first kernel is looked up.
//
// A kernel's architectures are those in its name (simcuda/base/architectures.h), else those in the names of its fat
// binary, which is its translation unit, else those that most fat binaries of its shared object have. Of an object in
// which no name tells any, all code is made for the device.
//
// Thread-safety: any thread. Ownership: names belong to the program, which keeps them as long as the object is loaded.
#ifndef SIMCUDA_RUNTIME_KERNEL_TABLE_H_
#define SIMCUDA_RUNTIME_KERNEL_TABLE_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "simcuda/base/architectures.h"

namespace simcuda {

struct FatBinary;

// Never freed: its kernels may be asked for while the process ends.
FatBinary* AddFatBinary(const void* image);
void AddKernel(FatBinary* binary, const void* stub, const char* name);
// Its object is about to be unloaded: none of its names is read any more.
void EndFatBinary(FatBinary* binary);

struct FoundKernel {
  CUfunction function = nullptr;  // null: nobody registered the stub
  CodeVersion code;
};

// With a context. cudaErrorNoKernelImageForDevice where the program has no code for this device.
cudaError_t FindKernel(const void* stub, FoundKernel* found);

}  // namespace simcuda

#endif  // SIMCUDA_RUNTIME_KERNEL_TABLE_H_
