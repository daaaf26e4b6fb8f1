// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What PyTorch's allocator held before recording began, from its own snapshot: existing.py asks for it between two
// bytecodes of the main thread, and each block and segment becomes an event (trace.proto, EXISTING). Until the last of
// them, EXISTING_END, stands in the trace, nothing is known.
//
// Thread-safety: RequestExisting as inject.h's RequestLook; GetExisting any thread; the others with the GIL held.
// Failure: EXISTING_END says why nothing is known; while the main thread is in one long call, none comes.
//
//   RequestExisting();                 // behind RECORDING_START
//   ... GetExisting().is_told

#ifndef GPUMEM_SHIM_PYTHON_EXISTING_H_
#define GPUMEM_SHIM_PYTHON_EXISTING_H_

#include <cstdint>

namespace gpumemshim::python {

// Numbers of trace.proto's ExistingResult.
enum class ExistingResult : int32_t { kKnown = 0, kNoTorch = 1, kNoSnapshot = 2, kNotAsked = 3, kOtherClasses = 4 };

// One block, segment or mapped part, in Python's types.
struct ExistingThing {
  unsigned long long kind;  // NOLINT(google-runtime-int): format.h's kExistingBlock ...
  int device;
  unsigned long long address, size, requested, stream;  // NOLINT(google-runtime-int)
};

struct Existing {
  bool is_asked = false;  // and not told so far
  bool is_told = false;   // since the last request
  ExistingResult result = ExistingResult::kKnown;
  uint64_t blocks = 0, allocated_bytes = 0;
};

void RequestExisting();
// In the writer's thread, with each event of PyTorch's and once a second: an interpreter is known only after a thread
// of its own came by. Where none is, that is reported after some seconds.
void RetryExisting(bool once_a_second);
Existing GetExisting();

bool IsExistingAsked();
void TellExisting(const ExistingThing& thing);
// Nothing where it was not asked.
void EndExisting(ExistingResult result);

}  // namespace gpumemshim::python

#endif  // GPUMEM_SHIM_PYTHON_EXISTING_H_
