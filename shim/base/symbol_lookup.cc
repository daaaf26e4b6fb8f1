// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/symbol_lookup.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

#include "shim/base/loader.h"

extern "C" {
// The linker's names for our own image. Hidden: an executable has symbols of the same name.
extern const char __ehdr_start __attribute__((visibility("hidden")));
extern const char _end __attribute__((visibility("hidden")));
}

namespace gpumemshim {
namespace {

struct DynamicTables {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t* gnu_hash = nullptr;
  const ElfW(Half) * versions = nullptr;
};

const char* FileName(const char* path) {
  const char* slash = path == nullptr ? nullptr : std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

bool HasPrefix(const char* text, const char* prefix) {
  return text != nullptr && std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

// glibc relocates the pointers of the dynamic section in place, other loaders leave them relative to the base.
uintptr_t Absolute(uintptr_t base, uintptr_t value) { return value < base ? base + value : value; }

DynamicTables ReadTables(const dl_phdr_info& object) {
  DynamicTables tables;
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      const uintptr_t value = Absolute(object.dlpi_addr, entry->d_un.d_ptr);
      if (entry->d_tag == DT_SYMTAB) tables.symbols = reinterpret_cast<const ElfW(Sym)*>(value);
      if (entry->d_tag == DT_STRTAB) tables.strings = reinterpret_cast<const char*>(value);
      if (entry->d_tag == DT_GNU_HASH) tables.gnu_hash = reinterpret_cast<const uint32_t*>(value);
      if (entry->d_tag == DT_VERSYM) tables.versions = reinterpret_cast<const ElfW(Half)*>(value);
    }
  }
  return tables;
}

uint32_t GnuHash(const char* name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

// Walks the chain of the GNU hash table; every toolchain of the last fifteen years writes one.
void* FindInTables(const DynamicTables& tables, uintptr_t base, const char* name) {
  if (tables.symbols == nullptr || tables.strings == nullptr || tables.gnu_hash == nullptr) return nullptr;
  const uint32_t bucket_count = tables.gnu_hash[0];
  const uint32_t first_symbol = tables.gnu_hash[1];
  const uint32_t bloom_words = tables.gnu_hash[2];
  const auto* buckets =
      reinterpret_cast<const uint32_t*>(reinterpret_cast<const uintptr_t*>(tables.gnu_hash + 4) + bloom_words);
  const uint32_t* chains = buckets + bucket_count;
  if (bucket_count == 0) return nullptr;

  const uint32_t hash = GnuHash(name);
  uint32_t index = buckets[hash % bucket_count];
  if (index < first_symbol) return nullptr;
  for (;; ++index) {
    const uint32_t entry = chains[index - first_symbol];
    const ElfW(Sym)& symbol = tables.symbols[index];
    const bool is_default = tables.versions == nullptr || (tables.versions[index] & 0x8000) == 0;
    if ((entry | 1) == (hash | 1) && is_default && symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 &&
        std::strcmp(tables.strings + symbol.st_name, name) == 0) {
      return reinterpret_cast<void*>(base + symbol.st_value);
    }
    if ((entry & 1) != 0) return nullptr;
  }
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
  if (!HasPrefix(FileName(object->dlpi_name), query->file_prefix)) return 0;
  if (query->symbol != nullptr) {
    void* found = FindInTables(ReadTables(*object), object->dlpi_addr, query->symbol);
    if (found == nullptr || IsOwnAddress(found)) return 0;
    query->found = found;
  }
  const size_t length = std::strlen(object->dlpi_name);
  if (query->path != nullptr && length < query->path_capacity) std::memcpy(query->path, object->dlpi_name, length + 1);
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
  const char* strings = ReadTables(*object).strings;
  for (int i = 0; strings != nullptr && i < object->dlpi_phnum; ++i) {
    if (object->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL && !needed->found; ++entry) {
      if (entry->d_tag != DT_NEEDED) continue;
      const char* name = FileName(strings + entry->d_un.d_val);
      const size_t length = std::strlen(name);
      if (!HasPrefix(name, needed->prefix) || length >= needed->capacity) continue;
      std::memcpy(needed->name, name, length + 1);
      needed->found = true;
    }
  }
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
  owner->matches = HasPrefix(FileName(object->dlpi_name), owner->file_prefix);
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

}  // namespace gpumemshim
