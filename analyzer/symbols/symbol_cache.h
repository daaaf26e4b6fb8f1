// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SymbolCache: names that were looked up before, one file a module and depth of knowledge, keyed by build id:
//
//   $XDG_CACHE_HOME/gpumemshim/symbols/v1/4f3a....dwarf     (else ~/.cache/...)
//
// Safe with several processes: files are replaced whole, and of two that write at once one loses what it added, never
// more. A damaged file is as good as none. Bounded: beyond the limit the files that were used longest ago go. Nothing
// here ever fails: without a place to write there is no cache. Not thread-safe.
//
//   SymbolCache cache(SymbolCache::DefaultFolder());
//   ModuleSymbols known = cache.Read(build_id, SymbolDepth::kDwarf);

#ifndef GPUMEM_ANALYZER_SYMBOLS_SYMBOL_CACHE_H_
#define GPUMEM_ANALYZER_SYMBOLS_SYMBOL_CACHE_H_

#include <cstdint>
#include <string>

#include "trace/module_symbols.h"

namespace gpumem {

// Names found with DWARF at hand say more than those of a symbol table; the two are kept apart.
enum class SymbolDepth { kTable, kDwarf };

class SymbolCache {
 public:
  static constexpr uint64_t kMaxBytes = 256 << 20;

  // From the environment; "" where neither XDG_CACHE_HOME nor HOME is an absolute path.
  static std::string DefaultFolder();

  // `folder` "" = no cache.
  explicit SymbolCache(std::string folder, uint64_t most_bytes = kMaxBytes);

  // Nothing where there is no build id.
  ModuleSymbols Read(const std::string& build_id, SymbolDepth depth) const;

  // Adds to what is there.
  void Write(const std::string& build_id, SymbolDepth depth, const ModuleSymbols& symbols) const;

  const std::string& folder() const { return folder_; }
  // Of all files.
  uint64_t SizeBytes() const;

 private:
  std::string PathOf(const std::string& build_id, SymbolDepth depth) const;
  bool MakeFolder() const;
  void Shrink() const;

  std::string folder_;
  uint64_t most_bytes_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_SYMBOLS_SYMBOL_CACHE_H_
