// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// To what the loader bound an object's imports of the functions that we wrap: what lies in its slots (GOT and tables of
// pointers) now.
//
// Thread-safety: inside a callback of dl_iterate_phdr, so that nothing is unloaded meanwhile. Reads pages that the
// loader has read before; the relocations of a large library take about a millisecond. Failure: an object whose tables
// cannot be told has no imports.
//
//   Imports imports;
//   if (FindImports(*object, &imports)) VisitSlots(*object, imports, [](const Slot& slot, void*) { ... }, nullptr);

#ifndef GPUMEM_SHIM_CONTROL_LOADER_ELF_SLOTS_H_
#define GPUMEM_SHIM_CONTROL_LOADER_ELF_SLOTS_H_

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>

#include "shim/base/api.h"

namespace gpumemshim::control {

// What an object imports of the functions that we wrap, and of dlsym.
struct Imports {
  static constexpr uint32_t kMax = 128;
  struct Import {
    uint32_t symbol;
    ApiId id;  // kNone = dlsym or dlvsym
  };
  const ElfW(Dyn) * dynamic = nullptr;
  Import imports[kMax];
  uint32_t count = 0;
};

struct Slot {
  ApiId id;  // kNone = dlsym or dlvsym
  uintptr_t bound;
};

// False: it imports none.
bool FindImports(const dl_phdr_info& object, Imports* imports);

void VisitSlots(const dl_phdr_info& object, const Imports& imports, void (*visit)(const Slot&, void*), void* data);

// The object's dynamic section; nullptr = it has none.
const ElfW(Dyn) * DynamicOf(const dl_phdr_info& object);

// True where `address` lies in one of the object's segments.
bool HoldsAddress(const dl_phdr_info& object, uintptr_t address);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_LOADER_ELF_SLOTS_H_
