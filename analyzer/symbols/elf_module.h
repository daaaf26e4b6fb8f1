// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ElfModule: one native object, opened to name its addresses. Symbol tables are read at the first question, DWARF only
// where the file (or its separate debug file under /usr/lib/debug) has some; so a library of a gigabyte without debug
// information costs a fraction of a second. Not thread-safe; owns the open file. Never fails: what cannot be read
// leaves answers empty and sets problem().
//
//   ElfModule module(info, /*use_dwarf=*/true);
//   for (const NativeFrame& frame : module.Lookup(virtual_address)) ...   // inlined ones first

#ifndef GPUMEM_ANALYZER_SYMBOLS_ELF_MODULE_H_
#define GPUMEM_ANALYZER_SYMBOLS_ELF_MODULE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trace/stack_table.h"

namespace gpumem {

struct NativeFrame {
  std::string symbol;  // mangled, or "" where not known
  std::string file;
  uint32_t line = 0;
  bool inlined = false;
};

class ElfModule {
 public:
  ElfModule(const ModuleInfo& info, bool use_dwarf);
  ~ElfModule();

  // The function at an address (as linked, not as loaded) and what was inlined into it there; at least one frame.
  std::vector<NativeFrame> Lookup(uint64_t address);

  // Why nothing of the module can be named, or "".
  const std::string& problem() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_SYMBOLS_ELF_MODULE_H_
