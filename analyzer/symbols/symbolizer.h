// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Symbolizer: the frames of a stack as names and lines. Python frames come from the line tables inside the trace;
// native ones from the modules on this machine (DWARF where there is some, else the ELF symbol tables, else module and
// offset). A module whose build id is not the recorded one is not believed. Lazy and cached: only what is asked for is
// looked up. Never fails: what is not known is left empty. Not thread-safe. The StackTable must outlive it.
//
//   Symbolizer symbolizer(&stacks);
//   for (const ResolvedFrame& frame : symbolizer.Resolve(use.stack_id)) Print(frame.short_function, frame.file,
//   frame.line);

#ifndef GPUMEM_ANALYZER_SYMBOLS_SYMBOLIZER_H_
#define GPUMEM_ANALYZER_SYMBOLS_SYMBOLIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trace/stack_table.h"

namespace gpumem {

struct ResolvedFrame {
  std::string function;        // full, demangled; "module+0x1234" where nothing better is known
  std::string short_function;  // without template arguments and parameters
  std::string file;            // "" = not known
  uint32_t line = 0;           // 0 = not known
  std::string module;          // path of the native module; "" for Python
  uint64_t offset = 0;         // native: virtual address inside the module
  bool python = false;
  bool inlined = false;  // an inlined function: shares its pc with the next frame outwards
};

struct SymbolizerOptions {
  bool native = true;  // false: native frames stay module+offset
  bool dwarf = true;   // false: symbol tables only
};

class Symbolizer {
 public:
  explicit Symbolizer(const StackTable* stacks, SymbolizerOptions options = {});
  ~Symbolizer();

  // Frames innermost first. Inlined functions are frames of their own.
  std::vector<ResolvedFrame> Resolve(uint64_t stack_id);
  // One frame of the StackTable, the functions inlined into it first. Valid until the next call.
  const std::vector<ResolvedFrame>& ResolveFrame(uint32_t frame_id);

  // What could not be used and why, one sentence each ("libfoo.so: build id differs").
  const std::vector<std::string>& notes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_SYMBOLS_SYMBOLIZER_H_
