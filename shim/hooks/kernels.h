// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What is known of kernels that were launched: driver_kernels.cc.
//
// Thread-safety: any thread. Failure: none.
//
//   if (destroyed) ForgetLocalMemory();   // what a context held of it went with it

#ifndef GPUMEM_SHIM_HOOKS_KERNELS_H_
#define GPUMEM_SHIM_HOOKS_KERNELS_H_

namespace gpumemshim::hooks {

// A context ended, or a device was reset: kernels are asked again when they are launched next.
void ForgetLocalMemory();

}  // namespace gpumemshim::hooks

#endif  // GPUMEM_SHIM_HOOKS_KERNELS_H_
