// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The trace's path. Default: gpumemshim.<program>.<pid>.gmtrace in the directory where the program set CUDA up, or, of
// a rank, gpumemshim.<program>.<job>.<host>.<pid>.r<rank>.gmtrace. GPUMEMSHIM_OUTPUT replaces it by a pattern: %p pid,
// %h host, %r rank and %j job (0 where none is known), %n program, %% a percent sign. A pattern that names a directory
// (it exists, or ends in "/") gets the default name inside it.
//
// Thread-safety: pure, but for looking whether a directory exists. Failure: false where the path does not fit.

#ifndef GPUMEM_SHIM_SETTINGS_OUTPUT_PATH_H_
#define GPUMEM_SHIM_SETTINGS_OUTPUT_PATH_H_

#include <cstddef>

#include "shim/settings/process_facts.h"

namespace gpumemshim::control {

bool OutputPath(const char* pattern, const ProcessFacts& facts, char* out, size_t capacity);

// Where to go when that place cannot be written: the default name in `temporary` (TMPDIR, may be ""), then in /tmp.
// False: no more places.
bool FallbackPath(uint32_t attempt, const char* temporary, const ProcessFacts& facts, char* out, size_t capacity);

// A program's short name, for the trace's file name: what a person would call it.
//
//   python -u scripts/train.py --lr 1   ->  train
//   python -m torch.distributed.run     ->  torch.distributed.run
//   python -c "..."                     ->  python-c
//   ./bench_alloc 3                     ->  bench_alloc
//
// Thread-safety: pure. Failure: "program".

// Letters, digits and "._+-" stay, everything else becomes "_"; at most 64 bytes, cut to `capacity`.
void ProgramName(const char* executable, const char* const* arguments, size_t count, char* out, size_t capacity);

// Whether this is the command line of a child (spawn) or of the server (forkserver) of Python's multiprocessing: it
// names nothing that a person knows, its parent's does.
bool StartedByMultiprocessing(const char* const* arguments, size_t count);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_SETTINGS_OUTPUT_PATH_H_
