// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/memory_checkers.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "shim/base/c_library.h"
#include "shim/base/loader.h"
#include "shim/base/plain_text.h"
#include "shim/base/symbol_lookup.h"

// The linker's name for our own image; link.h has the one for its dynamic section.
extern "C" const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

namespace gpumemshim {

std::atomic<bool> g_past_memory_checkers;

namespace {

std::atomic<bool> g_has_checker;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsCheckedItself = true;
#else
constexpr bool kIsCheckedItself = false;
#endif

constexpr uintptr_t kPage = 4096;

// What the runtime keeps books of: whoever asks it for memory must give it back there, and it has to know all threads.
constexpr const char* kKeptWithRuntime[] = {"malloc",         "calloc",       "realloc",        "free",
                                            "pthread_create", "pthread_join", "pthread_detach", "__cxa_atexit"};

struct Range {
  uintptr_t address;
  uintptr_t start;
  uintptr_t end;

  bool Holds(uintptr_t value) const { return value >= start && value < end; }
};

int VisitRange(dl_phdr_info* object, size_t, void* data) {
  auto* range = static_cast<Range*>(data);
  range->start = UINTPTR_MAX;
  range->end = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const uintptr_t start = object->dlpi_addr + segment.p_vaddr;
    if (start < range->start) range->start = start;
    if (start + segment.p_memsz > range->end) range->end = start + segment.p_memsz;
  }
  return range->Holds(range->address) ? 1 : 0;
}

// The object in front of the C library; false where there is none.
bool FindChecker(Range* checker) {
  const auto copy = reinterpret_cast<uintptr_t>(&memcpy), write_call = reinterpret_cast<uintptr_t>(&write);
  void* own = c_library::Find("write");
  if (own == nullptr || reinterpret_cast<uintptr_t>(own) == write_call) return false;
  *checker = {write_call, 0, 0};
  return loader::Iterate(&VisitRange, checker) != 0 && checker->Holds(copy) &&
         !checker->Holds(reinterpret_cast<uintptr_t>(own));
}

bool StaysWithRuntime(const char* name) {
  for (const char* kept : kKeptWithRuntime) {
    if (plain::Equal(kept, name)) return true;
  }
  return false;
}

struct OwnTables {
  uintptr_t base = 0;
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const ElfW(Rela) * relocations[2] = {};
  uint64_t bytes[2] = {};
  uintptr_t sealed_start = 0;  // what was made read-only once it was relocated
  uintptr_t sealed_end = 0;
};

OwnTables ReadOwnTables() {
  OwnTables own;
  own.base = reinterpret_cast<uintptr_t>(&__ehdr_start);
  const auto absolute = [&own](uintptr_t value) { return value < own.base ? own.base + value : value; };
  for (const ElfW(Dyn)* entry = _DYNAMIC; entry->d_tag != DT_NULL; ++entry) {
    const uintptr_t value = entry->d_un.d_ptr;
    if (entry->d_tag == DT_SYMTAB) own.symbols = reinterpret_cast<const ElfW(Sym)*>(absolute(value));
    if (entry->d_tag == DT_STRTAB) own.strings = reinterpret_cast<const char*>(absolute(value));
    if (entry->d_tag == DT_RELA) own.relocations[0] = reinterpret_cast<const ElfW(Rela)*>(absolute(value));
    if (entry->d_tag == DT_RELASZ) own.bytes[0] = value;
    if (entry->d_tag == DT_JMPREL) own.relocations[1] = reinterpret_cast<const ElfW(Rela)*>(absolute(value));
    if (entry->d_tag == DT_PLTRELSZ) own.bytes[1] = value;
  }
  const auto* headers = reinterpret_cast<const ElfW(Phdr)*>(own.base + __ehdr_start.e_phoff);
  for (int i = 0; i < __ehdr_start.e_phnum; ++i) {
    if (headers[i].p_type != PT_GNU_RELRO) continue;
    own.sealed_start = (own.base + headers[i].p_vaddr) & ~(kPage - 1);
    own.sealed_end = (own.base + headers[i].p_vaddr + headers[i].p_memsz) & ~(kPage - 1);
  }
  return own;
}

bool IsAddressOfFunction(const ElfW(Rela) & relocation) {
  const uint64_t type = ELF64_R_TYPE(relocation.r_info);
  return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT;
}

void Rebind(const OwnTables& own, const Range& checker) {
  for (int table = 0; table < 2; ++table) {
    const ElfW(Rela)* relocation = own.relocations[table];
    for (uint64_t i = 0; relocation != nullptr && i < own.bytes[table] / sizeof *relocation; ++i) {
      if (!IsAddressOfFunction(relocation[i])) continue;
      auto* slot = reinterpret_cast<uintptr_t*>(own.base + relocation[i].r_offset);
      if (!checker.Holds(__atomic_load_n(slot, __ATOMIC_RELAXED))) continue;
      const char* name = own.strings + own.symbols[ELF64_R_SYM(relocation[i].r_info)].st_name;
      void* found = StaysWithRuntime(name) ? nullptr : c_library::Find(name);
      if (found != nullptr) __atomic_store_n(slot, reinterpret_cast<uintptr_t>(found), __ATOMIC_RELAXED);
    }
  }
}

}  // namespace

bool HasMemoryChecker() { return g_has_checker.load(std::memory_order_relaxed); }

void FindAndBypassMemoryCheckers() {
  static std::atomic<bool> begun;
  Range checker;
  if (begun.exchange(true, std::memory_order_relaxed)) return;
  char path[4096];
  if (FindLoadedPath("vgpreload_", path, sizeof path)) g_has_checker.store(true, std::memory_order_relaxed);
  if (!kIsCheckedItself && FindChecker(&checker)) {
    g_has_checker.store(true, std::memory_order_relaxed);
    const OwnTables own = ReadOwnTables();
    const auto protect = reinterpret_cast<decltype(&mprotect)>(c_library::Find("mprotect"));
    auto* const sealed = reinterpret_cast<void*>(own.sealed_start);
    const size_t size = own.sealed_end - own.sealed_start;
    if (own.symbols != nullptr && own.strings != nullptr && protect != nullptr &&
        (size == 0 || protect(sealed, size, PROT_READ | PROT_WRITE) == 0)) {
      Rebind(own, checker);
      if (size != 0) protect(sealed, size, PROT_READ);
    }
  }
  g_past_memory_checkers.store(true, std::memory_order_relaxed);
}

}  // namespace gpumemshim
