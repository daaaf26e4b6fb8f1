// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Whether CUDA_INJECTION64_PATH brought us here, rather than LD_PRELOAD. See injection.cc.

#ifndef GPUMEM_SHIM_CONTROL_LOADER_INJECTION_H_
#define GPUMEM_SHIM_CONTROL_LOADER_INJECTION_H_

namespace gpumemshim::control {

bool WasInjected();

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_LOADER_INJECTION_H_
