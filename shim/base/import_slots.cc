// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/import_slots.h"

#include <elf.h>
#include <sys/mman.h>

#include <atomic>

namespace gpumemshim::imports {
namespace {

constexpr uintptr_t kPage = 4096;
#if defined(__aarch64__)
constexpr uint32_t kCall = R_AARCH64_JUMP_SLOT, kAddress = R_AARCH64_GLOB_DAT;
#else
constexpr uint32_t kCall = R_X86_64_JUMP_SLOT, kAddress = R_X86_64_GLOB_DAT;
#endif

struct Relocations {
  const ElfW(Rela) * first = nullptr;
  size_t count = 0;
};

struct Tables {
  Relocations linkage, others;
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
};

// The loader has added the base to some of the addresses of a dynamic section, and not to others.
Tables ReadTables(const Object& object, const ElfW(Dyn) * entry) {
  Tables tables;
  bool rela = true;
  for (; entry->d_tag != DT_NULL; ++entry) {
    const uintptr_t value = entry->d_un.d_ptr;
    const uintptr_t absolute = value < object.base ? object.base + value : value;
    if (entry->d_tag == DT_JMPREL) tables.linkage.first = reinterpret_cast<const ElfW(Rela)*>(absolute);
    if (entry->d_tag == DT_PLTRELSZ) tables.linkage.count = value / sizeof(ElfW(Rela));
    if (entry->d_tag == DT_PLTREL) rela = value == DT_RELA;
    if (entry->d_tag == DT_RELA) tables.others.first = reinterpret_cast<const ElfW(Rela)*>(absolute);
    if (entry->d_tag == DT_RELASZ) tables.others.count = value / sizeof(ElfW(Rela));
    if (entry->d_tag == DT_SYMTAB) tables.symbols = reinterpret_cast<const ElfW(Sym)*>(absolute);
    if (entry->d_tag == DT_STRTAB) tables.strings = reinterpret_cast<const char*>(absolute);
  }
  return rela ? tables : Tables{};
}

// The protection of the page that holds `address`, as the object's headers have it after relocation.
bool IsReadOnly(const Object& object, uintptr_t address) {
  for (int i = 0; i < object.header_count; ++i) {
    const ElfW(Phdr)& header = object.headers[i];
    const uintptr_t start = (object.base + header.p_vaddr) & ~(kPage - 1);
    const uintptr_t end = (object.base + header.p_vaddr + header.p_memsz) & ~(kPage - 1);
    if (header.p_type == PT_GNU_RELRO && address >= start && address < end) return true;
  }
  return false;
}

}  // namespace

const ElfW(Dyn) * DynamicOf(const Object& object) {
  for (int i = 0; i < object.header_count; ++i) {
    if (object.headers[i].p_type == PT_DYNAMIC)
      return reinterpret_cast<const ElfW(Dyn)*>(object.base + object.headers[i].p_vaddr);
  }
  return nullptr;
}

void Visit(const Object& object, Which which, void (*visit)(void* data, const Import& import), void* data) {
  const ElfW(Dyn)* dynamic = DynamicOf(object);
  if (dynamic == nullptr) return;
  const Tables tables = ReadTables(object, dynamic);
  if (tables.symbols == nullptr || tables.strings == nullptr) return;
  const Relocations others = which == Which::kAll ? tables.others : Relocations{};
  for (const Relocations& relocations : {tables.linkage, others}) {
    if (relocations.first == nullptr) continue;
    for (size_t i = 0; i < relocations.count; ++i) {
      const ElfW(Rela)& relocation = relocations.first[i];
      const auto type = static_cast<uint32_t>(ELF64_R_TYPE(relocation.r_info));
      if (type != kCall && type != kAddress) continue;
      const char* name = tables.strings + tables.symbols[ELF64_R_SYM(relocation.r_info)].st_name;
      visit(data, {name, object.base + relocation.r_offset});
    }
  }
}

bool Store(const Object& object, uintptr_t slot, uintptr_t value) {
  void* const page = reinterpret_cast<void*>(slot & ~(kPage - 1));
  const bool read_only = IsReadOnly(object, slot);
  if (read_only && mprotect(page, kPage, PROT_READ | PROT_WRITE) != 0) return false;
  std::atomic_ref<uintptr_t>(*reinterpret_cast<uintptr_t*>(slot)).store(value, std::memory_order_release);
  if (read_only) mprotect(page, kPage, PROT_READ);
  return true;
}

}  // namespace gpumemshim::imports
