// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A program's short name, for the trace's file name: what a person would call it.
//
//   python -u scripts/train.py --lr 1   ->  train
//   python -m torch.distributed.run     ->  torch.distributed.run
//   python -c "..."                     ->  python-c
//   ./bench_alloc 3                     ->  bench_alloc
//
// Thread-safety: pure. Failure: "program".

#ifndef GPUMEM_SHIM_SETTINGS_PROGRAM_NAME_H_
#define GPUMEM_SHIM_SETTINGS_PROGRAM_NAME_H_

#include <cstddef>

namespace gpumemshim::control {

// Letters, digits and "._+-" stay, everything else becomes "_"; at most 64 bytes, cut to `capacity`.
void ProgramName(const char* executable, const char* const* arguments, size_t count, char* out, size_t capacity);

// Whether this is the command line of a child (spawn) or of the server (forkserver) of Python's multiprocessing: it
// names nothing that a person knows, its parent's does.
bool StartedByMultiprocessing(const char* const* arguments, size_t count);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_SETTINGS_PROGRAM_NAME_H_
