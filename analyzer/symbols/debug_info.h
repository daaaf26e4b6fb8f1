// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What an ELF file says of addresses: names from its symbol tables; source lines and inlined functions from DWARF.

#ifndef GPUMEM_ANALYZER_SYMBOLS_DEBUG_INFO_H_
#define GPUMEM_ANALYZER_SYMBOLS_DEBUG_INFO_H_

#include <elfutils/libdw.h>
#include <gelf.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "trace/module_symbols.h"

namespace gpumem {

// Names of addresses from the symbol tables of an ELF file: one pass over each table for all wanted addresses, so that
// memory goes by how many are wanted and not by how many symbols there are (libtorch_cpu.so has 600,000). A function
// beats a label, the nearest start beats those before it, a global name a local one. Not thread-safe.
//
//   SymbolNames names(addresses);     // ascending
//   names.Scan(elf);                  // .symtab and .dynsym
//   names.ScanPlt(elf);               // stubs of the dynamic linker: "cudaMalloc@plt"
//   names.NameOf(0);
class SymbolNames {
 public:
  // `addresses` ascend, and outlive this; so do the files that are scanned.
  explicit SymbolNames(const std::vector<uint64_t>& addresses) : addresses_(addresses), best_(addresses.size()) {}

  void Scan(Elf* elf);
  // Only for addresses that have no name yet.
  void ScanPlt(Elf* elf);

  bool all_named() const;
  // As the file has it, mangled; "" where no symbol covers the address.
  std::string NameOf(size_t index) const;
  // The symbol says itself that it reaches to the address; a label without a size only stands before it.
  bool IsSure(size_t index) const;

 private:
  struct Best {
    uint64_t start = 0;
    int rank = -1;  // the higher the better; -1 = none
    Elf* elf = nullptr;
    size_t strings = 0, name = 0;  // section and offset of the name
    bool is_plt = false;
  };
  void ScanTable(Elf* elf, Elf_Scn* section, const GElf_Shdr& header);
  void Offer(uint64_t size, const Best& candidate);

  const std::vector<uint64_t>& addresses_;
  std::vector<Best> best_;
};

// Source lines and inlined functions of addresses, from DWARF. Only the compilation units that hold a wanted address
// are read, each once for all its addresses. Not thread-safe. Hostile DWARF can make libdw crash, hang or eat memory:
// to be run in a process of its own (address_lookup.h).
//
//   DwarfLookup lookup(dwarf);
//   const std::vector<std::vector<NativeFunction>> found = lookup.Find(addresses, progress);   // ascending addresses
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

#endif  // GPUMEM_ANALYZER_SYMBOLS_DEBUG_INFO_H_
