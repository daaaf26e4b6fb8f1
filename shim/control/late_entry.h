// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Two ways into a program that did not load us by LD_PRELOAD. Both install the hooks by a scan of slots (slot_scan.h).
//
// `gpumemshim attach` brings us into a program that was running: gpumemshim_attach_v1, called in a thread of its own,
// starts recording too. Where we were there already it only starts. CUDA_INJECTION64_PATH has the driver open us inside
// cuInit and call InitializeInjection.
//
// Thread-safety: any thread. Failure: the program goes on unrecorded.

#ifndef GPUMEM_SHIM_CONTROL_LATE_ENTRY_H_
#define GPUMEM_SHIM_CONTROL_LATE_ENTRY_H_

namespace gpumemshim::control {

// Whether `gpumemshim attach` brought us here.
bool WasAttached();

// Whether CUDA_INJECTION64_PATH brought us here, rather than LD_PRELOAD.
bool WasInjected();

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_LATE_ENTRY_H_
