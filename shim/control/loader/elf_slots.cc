// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/loader/elf_slots.h"

#include <cstring>

#include "shim/base/calls/own_symbols.h"

namespace gpumemshim::control {
namespace {

struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t* gnu_hash = nullptr;
  const uint32_t* hash = nullptr;
  const ElfW(Rela) * relocations = nullptr;  // of data; the first `relative_count` name no symbol
  size_t count = 0, relative_count = 0;
  const ElfW(Rela) * plt = nullptr;
  size_t plt_count = 0;
  bool plt_is_rela = true;

  // Imports stand before all that the object defines for others.
  uint32_t ImportsEnd() const { return gnu_hash != nullptr ? gnu_hash[1] : hash != nullptr ? hash[1] : 0; }
};

Tables ReadTables(uintptr_t base, const ElfW(Dyn) * entry) {
  Tables tables;
  for (; entry->d_tag != DT_NULL; ++entry) {
    const uintptr_t value = entry->d_un.d_ptr;
    // glibc relocates the pointers of the dynamic section in place, other loaders leave them relative to the base.
    const uintptr_t address = value < base ? base + value : value;
    if (entry->d_tag == DT_SYMTAB) tables.symbols = reinterpret_cast<const ElfW(Sym)*>(address);
    if (entry->d_tag == DT_STRTAB) tables.strings = reinterpret_cast<const char*>(address);
    if (entry->d_tag == DT_GNU_HASH) tables.gnu_hash = reinterpret_cast<const uint32_t*>(address);
    if (entry->d_tag == DT_HASH) tables.hash = reinterpret_cast<const uint32_t*>(address);
    if (entry->d_tag == DT_RELA) tables.relocations = reinterpret_cast<const ElfW(Rela)*>(address);
    if (entry->d_tag == DT_RELASZ) tables.count = value / sizeof(ElfW(Rela));
    if (entry->d_tag == DT_RELACOUNT) tables.relative_count = value;
    if (entry->d_tag == DT_JMPREL) tables.plt = reinterpret_cast<const ElfW(Rela)*>(address);
    if (entry->d_tag == DT_PLTRELSZ) tables.plt_count = value / sizeof(ElfW(Rela));
    if (entry->d_tag == DT_PLTREL) tables.plt_is_rela = value == DT_RELA;
  }
  if (tables.relocations == nullptr) tables.count = 0;
  if (tables.plt == nullptr || !tables.plt_is_rela) tables.plt_count = 0;
  return tables;
}

bool IsLookup(const char* name) { return std::strcmp(name, "dlsym") == 0 || std::strcmp(name, "dlvsym") == 0; }

bool HoldsAWord(uint32_t type) {
  return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_64;
}

struct Visit {
  const dl_phdr_info& object;
  const Imports& imports;
  void (*visit)(const Slot&, void*);
  void* data;

  void All(const ElfW(Rela) * relocations, size_t from, size_t to) const {
    const uint32_t first = imports.imports[0].symbol, last = imports.imports[imports.count - 1].symbol;
    for (size_t i = from; i < to; ++i) {
      const auto symbol = static_cast<uint32_t>(ELF64_R_SYM(relocations[i].r_info));
      if (symbol < first || symbol > last || !HoldsAWord(ELF64_R_TYPE(relocations[i].r_info))) continue;
      One(symbol, object.dlpi_addr + relocations[i].r_offset);
    }
  }

  void One(uint32_t symbol, uintptr_t slot) const {
    for (uint32_t i = 0; i < imports.count; ++i) {
      if (imports.imports[i].symbol != symbol) continue;
      visit({imports.imports[i].id, *reinterpret_cast<const volatile uintptr_t*>(slot)}, data);
    }
  }
};

}  // namespace

const ElfW(Dyn) * DynamicOf(const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    return reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
  }
  return nullptr;
}

bool HoldsAddress(const dl_phdr_info& object, uintptr_t address) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    const uintptr_t start = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= start && address - start < segment.p_memsz) return true;
  }
  return false;
}

bool FindImports(const dl_phdr_info& object, Imports* imports) {
  imports->count = 0;
  imports->dynamic = DynamicOf(object);
  if (imports->dynamic == nullptr) return false;
  const Tables tables = ReadTables(object.dlpi_addr, imports->dynamic);
  if (tables.symbols == nullptr || tables.strings == nullptr) return false;
  const uint32_t end = tables.ImportsEnd();
  for (uint32_t i = 1; i < end && imports->count < Imports::kMax; ++i) {
    if (tables.symbols[i].st_shndx != SHN_UNDEF) continue;
    const char* name = tables.strings + tables.symbols[i].st_name;
    const ApiId id = calls::FindOwnSymbol(name);
    if (id != ApiId::kNone || IsLookup(name)) imports->imports[imports->count++] = {i, id};
  }
  return imports->count != 0;
}

void VisitSlots(const dl_phdr_info& object, const Imports& imports, void (*visit)(const Slot&, void*), void* data) {
  const Tables tables = ReadTables(object.dlpi_addr, imports.dynamic);
  const Visit all{object, imports, visit, data};
  all.All(tables.relocations, tables.relative_count, tables.count);
  all.All(tables.plt, 0, tables.plt_count);
}

}  // namespace gpumemshim::control
