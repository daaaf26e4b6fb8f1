// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/symbol_lookup.h"

#include <elf.h>
#include <link.h>

#include <cstdint>

#include "shim/base/loader.h"
#include "shim/base/plain_text.h"

extern "C" {
// The linker's names for our own image. Hidden: an executable has symbols of the same name.
extern const char __ehdr_start __attribute__((visibility("hidden")));
extern const char _end __attribute__((visibility("hidden")));
}
// The loader's list for debuggers, of link.h. Weak: musl has it under another name.
#pragma weak _r_debug

namespace gpumemshim {
namespace {

const ElfW(Dyn) * DynamicOf(const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    if (segment.p_type == PT_DYNAMIC) return reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + segment.p_vaddr);
  }
  return nullptr;
}

struct Query {
  const char* file_prefix;
  const char* symbol;  // nullptr: any object of that name will do
  char* path;
  size_t path_capacity;
  void* found;
};

int Visit(dl_phdr_info* object, size_t, void* data) {
  auto* query = static_cast<Query*>(data);
  if (!plain::StartsWith(plain::FileName(object->dlpi_name), query->file_prefix)) return 0;
  if (query->symbol != nullptr) {
    const ElfW(Dyn)* dynamic = DynamicOf(*object);
    if (dynamic == nullptr) return 0;
    void* found = FindInTable(ReadSymbolTable(dynamic, object->dlpi_addr), query->symbol);
    if (found == nullptr || IsOwnAddress(found)) return 0;
    query->found = found;
  }
  if (query->path != nullptr) plain::Copy(object->dlpi_name, query->path, query->path_capacity);
  return 1;
}

bool Holds(const dl_phdr_info& object, uintptr_t address) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    const uintptr_t start = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= start && address < start + segment.p_memsz) return true;
  }
  return false;
}

struct Needed {
  uintptr_t address;
  const char* prefix;
  char* name;
  size_t capacity;
  bool found;
};

int VisitNeeded(dl_phdr_info* object, size_t, void* data) {
  auto* needed = static_cast<Needed*>(data);
  if (!Holds(*object, needed->address)) return 0;
  const ElfW(Dyn)* entry = DynamicOf(*object);
  if (entry == nullptr) return 1;
  const char* strings = ReadSymbolTable(entry, object->dlpi_addr).strings;
  for (; strings != nullptr && entry->d_tag != DT_NULL && !needed->found; ++entry) {
    if (entry->d_tag != DT_NEEDED) continue;
    const char* name = plain::FileName(strings + entry->d_un.d_val);
    needed->found = plain::StartsWith(name, needed->prefix) && plain::Copy(name, needed->name, needed->capacity);
  }
  return 1;
}

struct InObject {
  uintptr_t address;
  const char* symbol;
  void* found;
};

int VisitObjectOf(dl_phdr_info* object, size_t, void* data) {
  auto* query = static_cast<InObject*>(data);
  if (!Holds(*object, query->address)) return 0;
  if (const ElfW(Dyn)* entry = DynamicOf(*object); entry != nullptr)
    query->found = FindInTable(ReadSymbolTable(entry, object->dlpi_addr), query->symbol);
  return 1;
}

struct Owner {
  uintptr_t address;
  const char* file_prefix;
  bool matches;
};

int VisitOwner(dl_phdr_info* object, size_t, void* data) {
  auto* owner = static_cast<Owner*>(data);
  if (!Holds(*object, owner->address)) return 0;
  owner->matches = plain::StartsWith(plain::FileName(object->dlpi_name), owner->file_prefix);
  return 1;
}

struct Order {
  uintptr_t address;
  bool found;
};

// Objects come in the order in which they were loaded, which for preloads is the order of look-ups.
int VisitInOrder(dl_phdr_info* object, size_t, void* data) {
  auto* order = static_cast<Order*>(data);
  order->found = Holds(*object, order->address);
  return order->found || Holds(*object, reinterpret_cast<uintptr_t>(&__ehdr_start)) ? 1 : 0;
}

}  // namespace

void* FindInLoaded(const char* file_prefix, const char* symbol, char* path, size_t path_capacity) {
  if (path != nullptr && path_capacity > 0) path[0] = '\0';
  Query query{file_prefix, symbol, path, path_capacity, nullptr};
  loader::Iterate(&Visit, &query);
  return query.found;
}

bool FindLoadedPath(const char* file_prefix, char* path, size_t path_capacity) {
  if (path_capacity > 0) path[0] = '\0';
  Query query{file_prefix, nullptr, path, path_capacity, nullptr};
  return loader::Iterate(&Visit, &query) != 0 && path_capacity > 0 && path[0] != '\0';
}

bool FindNeeded(const void* address, const char* prefix, char* name, size_t capacity) {
  Needed needed{reinterpret_cast<uintptr_t>(address), prefix, name, capacity, false};
  loader::Iterate(&VisitNeeded, &needed);
  return needed.found;
}

void* FindInObjectOf(const void* address, const char* symbol) {
  InObject query{reinterpret_cast<uintptr_t>(address), symbol, nullptr};
  loader::Iterate(&VisitObjectOf, &query);
  return query.found;
}

void* FindNext(const char* symbol) {
  // The address of a weak symbol may be 0, whatever the compiler thinks.
  const r_debug* volatile list = &_r_debug;
  const link_map* object = list == nullptr ? nullptr : list->r_map;
  while (object != nullptr && object->l_ld != _DYNAMIC) object = object->l_next;
  if (object == nullptr) return nullptr;  // we are in a namespace of dlmopen
  for (object = object->l_next; object != nullptr; object = object->l_next) {
    void* found = FindInTable(ReadSymbolTable(object->l_ld, object->l_addr), symbol);
    if (found != nullptr) return found;
  }
  return nullptr;
}

bool IsOwnAddress(const void* address) {
  const auto value = reinterpret_cast<uintptr_t>(address);
  return value >= reinterpret_cast<uintptr_t>(&__ehdr_start) && value < reinterpret_cast<uintptr_t>(&_end);
}

bool IsLoadedBeforeUs(const void* address) {
  Order order{reinterpret_cast<uintptr_t>(address), false};
  loader::Iterate(&VisitInOrder, &order);
  return order.found;
}

bool LiesIn(const void* address, const char* file_prefix) {
  Owner owner{reinterpret_cast<uintptr_t>(address), file_prefix, false};
  loader::Iterate(&VisitOwner, &owner);
  return owner.matches;
}

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
