// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// When the program's Python is asked who owns GPU memory (owners.py): at the end of a run that grew, after a request
// for memory that failed for good, and when somebody asks. Never inside a hook: the main thread does it between two
// bytecodes.
//
// Thread-safety: Saw* by the writer's thread; RequestOwners and GetOwners by any; the others with the GIL held.
// Failure: nothing is recorded; the reader says that no owners were seen.

#ifndef GPUMEM_SHIM_PYTHON_OWNERS_H_
#define GPUMEM_SHIM_PYTHON_OWNERS_H_

#include <cstdint>

#include "shim/base/event.h"
#include "shim/python/api.h"

namespace gpumemshim::python {

// Numbers of trace.proto's OwnersCause.
enum class OwnersCause : uint32_t { kEnd = 1, kOutOfMemory = 2, kAsked = 3 };

// Before anything else; also in a forked child. 0: never.
void ConfigureOwners(uint32_t limit_ms);
// While the program runs, from any thread.
void SetOwnersLimit(uint32_t limit_ms);
uint32_t GetOwnersLimit();

// An event of PyTorch's allocator.
void SawTorch(const Event& event);

// Once what was in the ring has been seen.
void FinishedPass();

// False: nothing may run in the program's Python, or it takes no more calls.
bool RequestOwners(OwnersCause cause);

struct OwnersState {
  uint32_t taken = 0;   // snapshots so far
  uint32_t blocks = 0;  // whose tensors the last one saw
  uint32_t took_ms = 0;
  bool is_asked = false;
};
OwnersState GetOwners();

// What the helper is given: record.owners_source(), record.owners_limit(), record.grew(), record.owners_end().
bool AddOwnersFunctions(const Api* api, Object* record);

}  // namespace gpumemshim::python

#endif  // GPUMEM_SHIM_PYTHON_OWNERS_H_
