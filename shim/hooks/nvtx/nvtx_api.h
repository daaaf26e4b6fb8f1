// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NVTX's public types, without the functions that its headers would define here.

#ifndef GPUMEM_SHIM_HOOKS_NVTX_NVTX_API_H_
#define GPUMEM_SHIM_HOOKS_NVTX_NVTX_API_H_

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#endif  // GPUMEM_SHIM_HOOKS_NVTX_NVTX_API_H_
