// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/symbol_table.h"

#include "shim/base/plain_text.h"

namespace gpumemshim {
namespace {

// glibc relocates the pointers of the dynamic section in place, other loaders leave them relative to the base.
uintptr_t Absolute(uintptr_t base, uintptr_t value) { return value < base ? base + value : value; }

uint32_t GnuHash(const char* name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

void* AddressOf(const ElfW(Sym) & symbol, uintptr_t load_bias) {
  const uintptr_t address = load_bias + symbol.st_value;
  if (ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC) return reinterpret_cast<void* (*)()>(address)();
  return reinterpret_cast<void*>(address);
}

}  // namespace

SymbolTable ReadSymbolTable(const ElfW(Dyn) * dynamic, uintptr_t load_bias) {
  SymbolTable table;
  table.load_bias = load_bias;
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    const uintptr_t value = Absolute(load_bias, dynamic->d_un.d_ptr);
    if (dynamic->d_tag == DT_SYMTAB) table.symbols = reinterpret_cast<const ElfW(Sym)*>(value);
    if (dynamic->d_tag == DT_STRTAB) table.strings = reinterpret_cast<const char*>(value);
    if (dynamic->d_tag == DT_GNU_HASH) table.gnu_hash = reinterpret_cast<const uint32_t*>(value);
    if (dynamic->d_tag == DT_VERSYM) table.versions = reinterpret_cast<const ElfW(Half)*>(value);
  }
  return table;
}

// Walks the chain of the GNU hash table; every toolchain of the last fifteen years writes one.
void* FindInTable(const SymbolTable& table, const char* name) {
  if (table.symbols == nullptr || table.strings == nullptr || table.gnu_hash == nullptr) return nullptr;
  const uint32_t bucket_count = table.gnu_hash[0];
  const uint32_t first_symbol = table.gnu_hash[1];
  const uint32_t bloom_words = table.gnu_hash[2];
  const auto* buckets =
      reinterpret_cast<const uint32_t*>(reinterpret_cast<const uintptr_t*>(table.gnu_hash + 4) + bloom_words);
  const uint32_t* chains = buckets + bucket_count;
  if (bucket_count == 0) return nullptr;

  const uint32_t hash = GnuHash(name);
  uint32_t index = buckets[hash % bucket_count];
  if (index < first_symbol) return nullptr;
  for (;; ++index) {
    const uint32_t entry = chains[index - first_symbol];
    const ElfW(Sym)& symbol = table.symbols[index];
    const bool is_default = table.versions == nullptr || (table.versions[index] & 0x8000) == 0;
    if ((entry | 1) == (hash | 1) && is_default && symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 &&
        plain::Equal(table.strings + symbol.st_name, name)) {
      return AddressOf(symbol, table.load_bias);
    }
    if ((entry & 1) != 0) return nullptr;
  }
}

}  // namespace gpumemshim
