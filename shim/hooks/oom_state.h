// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What stands behind a request that ran out of memory: events that say how much the device had free at that moment (so
// also what other processes held) and what PyTorch's allocator counted itself.
//
// Thread-safety: any thread, inside a hook, after its event was recorded. Failure: nothing is recorded; a thread
// without a current context, memory of the host and a driver that does not answer are no failures of the program.
//
//   ring::Record(event);
//   if (event.kind == EventKind::kAllocFailed) RecordOomState(event);

#ifndef GPUMEM_SHIM_HOOKS_OOM_STATE_H_
#define GPUMEM_SHIM_HOOKS_OOM_STATE_H_

#include "shim/base/event.h"

namespace gpumemshim::hooks {

// Does not keep errno.
void RecordOomState(const Event& failed);

}  // namespace gpumemshim::hooks

#endif  // GPUMEM_SHIM_HOOKS_OOM_STATE_H_
