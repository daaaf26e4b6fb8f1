// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The dynamic symbols of one loaded object, read from its own tables.
//
// Thread-safety: pure reads; the object must not be unloaded meanwhile. Calls nothing. Failure: nullptr.
//
//   const SymbolTable table = ReadSymbolTable(dynamic_section, load_bias);
//   void* function = FindInTable(table, "dlsym");

#ifndef GPUMEM_SHIM_BASE_SYMBOL_TABLE_H_
#define GPUMEM_SHIM_BASE_SYMBOL_TABLE_H_

#include <elf.h>
#include <link.h>

#include <cstdint>

namespace gpumemshim {

struct SymbolTable {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t* gnu_hash = nullptr;
  const ElfW(Half) * versions = nullptr;
  uintptr_t load_bias = 0;
};

SymbolTable ReadSymbolTable(const ElfW(Dyn) * dynamic, uintptr_t load_bias);

// The definition of the default version. An indirect function's resolver is asked, as the loader asks it.
void* FindInTable(const SymbolTable& table, const char* name);

}  // namespace gpumemshim

#endif  // GPUMEM_SHIM_BASE_SYMBOL_TABLE_H_
