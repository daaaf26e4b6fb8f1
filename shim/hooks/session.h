// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the hooks need from control/, which stands behind them in the order of dependence and defines these.
//
// Thread-safety: any thread, also inside each other. Failure: false, and the call goes unrecorded.

#ifndef GPUMEM_SHIM_HOOKS_SESSION_H_
#define GPUMEM_SHIM_HOOKS_SESSION_H_

namespace gpumemshim::session {

// The driver was initialised in this process: set up here, outside of any allocator's lock. Safe to call again.
bool StartAtInit();

// An event wants to be recorded and the ring is not active: the driver's initialisation was missed, the session has
// ended, or this is a forked child (which starts at its own cuInit only).
bool StartAtEvent();

// True once in a session.
bool IsFirstEvent();

}  // namespace gpumemshim::session

#endif  // GPUMEM_SHIM_HOOKS_SESSION_H_
