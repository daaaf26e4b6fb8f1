// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SymbolizedStacks: a Symbolizer as report/ wants it. Both arguments must outlive it; as thread-safe as they are.

#ifndef GPUMEM_ANALYZER_LEDGER_STACKS_SYMBOLIZED_STACKS_H_
#define GPUMEM_ANALYZER_LEDGER_STACKS_SYMBOLIZED_STACKS_H_

#include <cstdint>
#include <vector>

#include "ledger/stacks/stack_source.h"
#include "symbols/stack_hash.h"
#include "symbols/symbolizer.h"

namespace gpumem {

class SymbolizedStacks final : public StackSource {
 public:
  SymbolizedStacks(const StackTable* stacks, Symbolizer* symbolizer) : stacks_(stacks), symbolizer_(symbolizer) {}
  std::vector<ResolvedFrame> Frames(uint64_t stack_id) override { return symbolizer_->Resolve(stack_id); }
  uint64_t Hash(uint64_t stack_id) override { return StackHash(*stacks_, stack_id); }

 private:
  const StackTable* stacks_;
  Symbolizer* symbolizer_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_STACKS_SYMBOLIZED_STACKS_H_
