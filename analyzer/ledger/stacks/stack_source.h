// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// StackSource: where reports get a stack's frames from. The seam between report/ and symbols/: commands/ hands in the
// Symbolizer, tests hand in frames made by hand. Not thread-safe.

#ifndef GPUMEM_ANALYZER_LEDGER_STACKS_STACK_SOURCE_H_
#define GPUMEM_ANALYZER_LEDGER_STACKS_STACK_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "symbols/symbolizer.h"

namespace gpumem {

class StackSource {
 public:
  virtual ~StackSource() = default;
  // Frames innermost first; empty where the stack is not known.
  virtual std::vector<ResolvedFrame> Frames(uint64_t stack_id) = 0;
  // The stack's name in every process and run (symbols/stack_hash.h); 0 = none.
  virtual uint64_t Hash(uint64_t) { return 0; }
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_STACKS_STACK_SOURCE_H_
