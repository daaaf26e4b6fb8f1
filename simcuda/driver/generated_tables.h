// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What generate/driver.py reads off NVIDIA's public headers at build time.
#ifndef SIMCUDA_DRIVER_GENERATED_TABLES_H_
#define SIMCUDA_DRIVER_GENERATED_TABLES_H_

#include <cuda.h>

#include <cstddef>

namespace simcuda {

// One export as cuGetProcAddress knows it: cuMemAlloc from version 3020 on is cuMemAlloc_v2.
struct EntryPoint {
  const char* base_name;
  int version;      // the first CUDA version with it
  bool per_thread;  // the _ptsz or _ptds form
  void* address;
};

// Sorted by base_name; the forms of one name by ascending version.
extern const EntryPoint kEntryPoints[];
extern const size_t kEntryPointCount;

// "CUDA_ERROR_OUT_OF_MEMORY", or null for a number that is not a CUresult.
const char* ResultName(CUresult result);

}  // namespace simcuda

#endif  // SIMCUDA_DRIVER_GENERATED_TABLES_H_
