// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Asks the program's Python something, on request only: a function of live.py (the same source as the package's) or
// console.py runs in the main thread, between two bytecodes, with the GIL held, while the asker waits.
//
// Thread-safety: one asker at a time, who holds no lock and no GIL: the control thread. What comes too late is dropped.
// Failure: a text that says why there is no answer.
//
//   static char answer[kMaxReplyBytes];
//   size_t size = 0;
//   if (const char* why = Ask(Request::kTensors, "", 8000, answer, &size)) ...

#ifndef GPUMEM_SHIM_PYTHON_REQUEST_H_
#define GPUMEM_SHIM_PYTHON_REQUEST_H_

#include <cstddef>
#include <cstdint>

namespace gpumemshim::python {

inline constexpr size_t kMaxReplyBytes = 48 * 1024;

enum class Request : uint32_t { kTensors, kGradients, kGc, kBacktrace, kEval };

inline constexpr size_t kMaxArgumentBytes = 2048;

// `argument`: of kEval, in UTF-8. `out` has kMaxReplyBytes. nullptr: `*size` bytes are in it.
const char* Ask(Request request, const char* argument, uint32_t timeout_ms, char* out, size_t* size);

}  // namespace gpumemshim::python

#endif  // GPUMEM_SHIM_PYTHON_REQUEST_H_
