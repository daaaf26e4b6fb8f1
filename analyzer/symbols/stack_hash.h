// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A name for a stack that is the same in every process and run: ids and addresses are not in it. A native frame counts
// by its module's build id and the offset inside it (the module's file name where it has no build id), a Python frame
// by file, qualified name and line. Frames of no module count as one, wherever they were.
//
// Pure; part of the JSON answers, so it never changes: FNV-1a, 64 bits, over the frames from the innermost out.
//
//   StackHash(stacks_of_rank_0, a) == StackHash(stacks_of_rank_1, b)   // the same line by the same way

#ifndef GPUMEM_ANALYZER_SYMBOLS_STACK_HASH_H_
#define GPUMEM_ANALYZER_SYMBOLS_STACK_HASH_H_

#include <cstdint>

#include "trace/stack_table.h"

namespace gpumem {

// 0 for a stack without frames.
uint64_t StackHash(const StackTable& stacks, uint64_t stack_id);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_SYMBOLS_STACK_HASH_H_
