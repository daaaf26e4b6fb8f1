// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NVIDIA's public headers with every variant of a function declared under its exported name (legacy, _v2, _ptsz), so
// that the compiler compares our definitions with NVIDIA's declarations: a wrapper with a wrong signature does not
// build. Everything that they declare has default visibility; the version script decides what is exported.

#ifndef GPUMEM_SHIM_BASE_CALLS_CUDA_HEADERS_H_
#define GPUMEM_SHIM_BASE_CALLS_CUDA_HEADERS_H_

#define __CUDA_API_VERSION_INTERNAL
#pragma GCC visibility push(default)
#include <cuda.h>
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

#endif  // GPUMEM_SHIM_BASE_CALLS_CUDA_HEADERS_H_
