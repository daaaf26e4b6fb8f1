// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// `gpumemshim attach` brought us into a program that was running: gpumemshim_attach_v1, called in a thread of its own,
// installs the hooks by a scan of slots (slot_scan.h) and starts recording. Where we were there already it only starts.
//
// Thread-safety: WasAttached from any thread. Failure: the program goes on unrecorded.

#ifndef GPUMEM_SHIM_CONTROL_ATTACH_H_
#define GPUMEM_SHIM_CONTROL_ATTACH_H_

namespace gpumemshim::control {

bool WasAttached();

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_ATTACH_H_
