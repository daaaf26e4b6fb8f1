// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The words of the simulated CUDA: its descriptions of error codes, shared by the driver and the runtime, whose codes
// have the same numbers and meanings; and what it says to a person: nothing, unless SIMCUDA_VERBOSE or SIMCUDA_STATS
// asks for it.
//
// Thread-safety: all functions may be called from any thread. No heap, one write(2) a line.
#ifndef SIMCUDA_BASE_NOTE_H_
#define SIMCUDA_BASE_NOTE_H_

#include <atomic>

namespace simcuda {

// What the simulated CUDA says to a person: nothing, unless SIMCUDA_VERBOSE or SIMCUDA_STATS asks for it.

// With SIMCUDA_VERBOSE=1 says on stderr, the first time only, that `function` of `library` is not simulated.
// `reported` is the caller's static flag.
void NoteUnsupported(const char* library, const char* function, std::atomic<bool>* reported);

// Writes one printf-formatted line, prefixed "simcuda: ", to stderr.
void PrintLine(const char* format, ...) __attribute__((format(printf, 1, 2)));

// The words for error codes, shared by the driver and the runtime, whose codes have the same numbers and meanings.
// Thread-safety: pure functions; the result lives as long as the process.

// A short description, or null for a code without one.
const char* ErrorText(int code);

}  // namespace simcuda

#endif  // SIMCUDA_BASE_NOTE_H_
