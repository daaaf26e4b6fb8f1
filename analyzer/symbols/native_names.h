// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NativeNames: all native frames of a trace, grouped by module and looked up together: first what the trace itself
// holds, then the cache, then the files. Symbolizer's half for native code. Not thread-safe; the StackTable must
// outlive it.

#ifndef GPUMEM_ANALYZER_SYMBOLS_NATIVE_NAMES_H_
#define GPUMEM_ANALYZER_SYMBOLS_NATIVE_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "symbols/address_lookup.h"
#include "symbols/symbolizer.h"

namespace gpumem {

class SymbolCache;

class NativeNames {
 public:
  NativeNames(const StackTable* stacks, const SymbolizerOptions* options) : stacks_(stacks), options_(options) {}

  void LookUp();

  // Of a module's return address; empty where nothing is known.
  std::vector<NativeFunction> At(uint32_t module_id, uint64_t address) const;

  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<ModuleReport>& reports() const { return reports_; }
  const ModuleSymbols& symbols(size_t report) const { return modules_[report].symbols; }

 private:
  struct Module {
    ModuleInfo info;
    std::vector<uint64_t> addresses;  // ascending, each once
    ModuleSymbols symbols;
    FileTrouble trouble = FileTrouble::kNone;
    std::string detail, failure;
  };
  void Group();
  std::vector<uint64_t> Missing(const Module& module) const;
  void TakeStored(size_t index);
  void Read(size_t index, ModuleFiles* files, const SymbolCache& cache, const LookupProgress& progress);
  void Count(size_t index);
  void WriteNotes();

  const StackTable* stacks_;
  const SymbolizerOptions* options_;
  std::vector<Module> modules_;                  // by path
  std::vector<ModuleReport> reports_;            // of the same index
  absl::flat_hash_map<uint32_t, size_t> index_;  // by Module.id
  std::vector<std::string> notes_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_SYMBOLS_NATIVE_NAMES_H_
