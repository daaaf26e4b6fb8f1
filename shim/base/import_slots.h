// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The words of a loaded object through which its code reaches functions of others: what the loader fills in, by the
// relocations of the object's procedure linkage and global offset tables (System V ABI, "Dynamic Linking").
//
// Thread-safety: any thread, while nothing is loaded, relocated or unloaded. A slot is one aligned word, written at
// once. Failure: Store returns false where the page cannot be made writable; nothing has changed then.
//
//   imports::ForEach(object, imports::Which::kAll, [&](const imports::Import& import) {
//     if (std::strcmp(import.name, "open") == 0) imports::Store(object, import.slot, wrapper);
//   });

#ifndef GPUMEM_SHIM_BASE_IMPORT_SLOTS_H_
#define GPUMEM_SHIM_BASE_IMPORT_SLOTS_H_

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace gpumemshim::imports {

// As dl_iterate_phdr describes it.
struct Object {
  uintptr_t base = 0;
  const ElfW(Phdr) * headers = nullptr;
  int header_count = 0;
};

struct Import {
  const char* name;
  uintptr_t slot;  // address of the word
};

// kCalls: the procedure linkage table alone. The other relocations of a large library are a million, most of them of no
// function, in pages that nobody has touched since it was loaded.
enum class Which : uint8_t { kCalls, kAll };

const ElfW(Dyn) * DynamicOf(const Object& object);

void Visit(const Object& object, Which which, void (*visit)(void* data, const Import& import), void* data);

template <typename Function>
void ForEach(const Object& object, Which which, Function function) {
  Visit(
      object, which, [](void* data, const Import& import) { (*static_cast<Function*>(data))(import); }, &function);
}

bool Store(const Object& object, uintptr_t slot, uintptr_t value);

}  // namespace gpumemshim::imports

#endif  // GPUMEM_SHIM_BASE_IMPORT_SLOTS_H_
