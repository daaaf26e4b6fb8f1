// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Source lines and inlined functions of addresses, from DWARF. Only the compilation units that hold a wanted address
// are read, each once for all its addresses. Not thread-safe. Hostile DWARF can make libdw crash, hang or eat memory:
// to be run in a process of its own (isolated.h).
//
//   DwarfLookup lookup(dwarf);
//   const std::vector<std::vector<NativeFunction>> found = lookup.Find(addresses, progress);   // ascending addresses

#ifndef GPUMEM_ANALYZER_SYMBOLS_DWARF_LOOKUP_H_
#define GPUMEM_ANALYZER_SYMBOLS_DWARF_LOOKUP_H_

#include <elfutils/libdw.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "trace/module_symbols.h"

namespace gpumem {

class DwarfLookup {
 public:
  // Does not own `dwarf`.
  explicit DwarfLookup(Dwarf* dwarf) : dwarf_(dwarf) {}

  // Of each address the functions there, innermost first, by their linkage names where they have such. The last one is
  // nameless where the address has a line but lies in no function that is described.
  std::vector<std::vector<NativeFunction>> Find(const std::vector<uint64_t>& addresses,
                                                const std::function<void(size_t done)>& progress);

 private:
  // The scopes around one address, outermost first: a function and those inlined there.
  using Chain = std::vector<Dwarf_Die>;
  struct Unit {
    uint64_t start, end;
    Dwarf_Off die;
  };

  bool FindUnit(uint64_t address, Dwarf_Die* unit);
  void ReadUnits();
  void Walk(Dwarf_Die* parent, const std::vector<size_t>& wanted, const std::vector<uint64_t>& addresses, int depth,
            std::vector<Chain>* chains);
  std::vector<NativeFunction> Functions(Dwarf_Die* unit, uint64_t address, Chain* chain);
  std::string NameOf(Dwarf_Die* die);

  Dwarf* dwarf_;
  std::vector<Unit> units_;  // where the file has no .debug_aranges; by start
  bool has_units_ = false;
  bool has_namespaces_ = true;                          // of the unit at hand
  bool walks_classes_ = false;                          // of the unit at hand: its language has functions in them
  std::unordered_map<const void*, std::string> names_;  // by place of the entry
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_SYMBOLS_DWARF_LOOKUP_H_
