// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Names of addresses from the symbol tables of an ELF file: one pass over each table for all wanted addresses, so that
// memory goes by how many are wanted and not by how many symbols there are (libtorch_cpu.so has 600,000). A function
// beats a label, the nearest start beats those before it, a global name a local one. Not thread-safe.
//
//   SymbolNames names(addresses);     // ascending
//   names.Scan(elf);                  // .symtab and .dynsym
//   names.ScanPlt(elf);               // stubs of the dynamic linker: "cudaMalloc@plt"
//   names.NameOf(0);

#ifndef GPUMEM_ANALYZER_SYMBOLS_SYMBOL_TABLE_H_
#define GPUMEM_ANALYZER_SYMBOLS_SYMBOL_TABLE_H_

#include <gelf.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpumem {

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

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_SYMBOLS_SYMBOL_TABLE_H_
