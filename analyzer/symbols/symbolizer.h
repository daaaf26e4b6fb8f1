// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Symbolizer: the frames of a stack as names and lines. Python frames come from the line tables inside the trace;
// native ones from the names that `gpumemshim export trace --names` stored in it, else from the modules' files
// (module_files.h says where they are looked for): DWARF where there is some, else the ELF symbol tables, else module
// and offset. A file whose build id is not the recorded one is not used, and notes() says so.
//
// All native frames of the trace are looked up together, at the first question or by Prepare(); what was found is kept
// in the user's cache (symbol_cache.h). Never fails: what is not known is left empty. Not thread-safe. The StackTable
// must outlive it.
//
//   Symbolizer symbolizer(&stacks, options);
//   for (const ResolvedFrame& frame : symbolizer.Resolve(use.stack_id)) Print(frame.short_function, frame.file,
//   frame.line);

#ifndef GPUMEM_ANALYZER_SYMBOLS_SYMBOLIZER_H_
#define GPUMEM_ANALYZER_SYMBOLS_SYMBOLIZER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "symbols/address_lookup.h"
#include "symbols/module_files.h"
#include "trace/stack_table.h"

namespace gpumem {

struct ResolvedFrame {
  std::string function;        // full, demangled; "module+0x1234" where nothing better is known
  std::string short_function;  // without template arguments and parameters
  std::string file;            // "" = not known
  uint32_t line = 0;           // 0 = not known
  std::string module;          // path of the native module; "" for Python, and for code in no file
  uint64_t offset = 0;         // native: virtual address inside the module
  bool python = false;
  bool inlined = false;  // shares its pc, or its line of generated code, with the next frame outwards
  // No call: the frames inside ran as the backward pass of an autograd node, those outside made the node. The function
  // is "<backward of MmBackward0>".
  bool forward = false;
  uint32_t nn_module = 0;  // Python: the call of this nn.Module (StackTable::objects); 0 = of none
  // Python, a line that torch.compile made code of, which is the next frame outwards that is not inlined: the nn.Module
  // in which it runs, or one around it; 0 = not known.
  uint32_t compiled_in = 0;
};

struct SymbolizerOptions {
  bool native = true;  // false: native frames stay module+offset
  bool dwarf = true;   // false: symbol tables only
  SymbolSearch search;
  std::string cache_folder;  // of SymbolCache; "" = none
  // Called while files are read: "symbols of libfoo.so", and how far all of them are.
  std::function<void(const std::string& what, uint64_t done, uint64_t all)> progress;
};

// Where the names of a module came from.
enum class SymbolSource { kTrace, kCache, kFile, kNone };

// What became of one module that has frames in the trace.
struct ModuleReport {
  std::vector<uint32_t> ids;   // Module.id: the same file may have been loaded several times
  std::string path, build_id;  // build_id raw
  SymbolSource source = SymbolSource::kNone;
  std::string file;  // that was read, "" = none
  size_t addresses = 0, named = 0, with_lines = 0;
  std::string problem;  // one clause, "" = none
};

class Symbolizer {
 public:
  explicit Symbolizer(const StackTable* stacks, SymbolizerOptions options = {});
  ~Symbolizer();

  // Looks up all native frames of the trace. Done by the first Resolve otherwise.
  void Prepare();

  // Frames innermost first. Inlined functions are frames of their own.
  std::vector<ResolvedFrame> Resolve(uint64_t stack_id);
  // One frame of the StackTable, the functions inlined into it first. Valid until the next call.
  const std::vector<ResolvedFrame>& ResolveFrame(uint32_t frame_id);

  // What could not be used and why, one sentence each with what to do. Complete once prepared.
  const std::vector<std::string>& notes() const;
  // Those of them that are about the files and folders that the search was given.
  const std::vector<std::string>& search_notes() const;
  const std::vector<ModuleReport>& modules() const;
  // The names of a module's addresses that have any; nullptr for a module without frames.
  const ModuleSymbols* SymbolsOf(const ModuleReport& module) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_SYMBOLS_SYMBOLIZER_H_
