// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the simulated CUDA says to a person: nothing, unless SIMCUDA_VERBOSE or SIMCUDA_STATS asks for it.
//
// Thread-safety: all functions may be called from any thread. No heap, one write(2) a line.
#ifndef SIMCUDA_BASE_NOTE_H_
#define SIMCUDA_BASE_NOTE_H_

#include <atomic>

namespace simcuda {

// With SIMCUDA_VERBOSE=1 says on stderr, the first time only, that `function` of `library` is not simulated.
// `reported` is the caller's static flag.
void NoteUnsupported(const char* library, const char* function, std::atomic<bool>* reported);

// Writes one printf-formatted line, prefixed "simcuda: ", to stderr.
void PrintLine(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace simcuda

#endif  // SIMCUDA_BASE_NOTE_H_
