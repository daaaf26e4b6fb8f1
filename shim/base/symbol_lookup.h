// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Finds a function in an object that is already loaded by reading the object's own dynamic symbol table. Unlike dlsym
// it never touches the host's dlerror(), sees objects loaded with RTLD_LOCAL, and cannot find ourselves.
//
// Thread-safety: any thread; takes the loader's short list lock (dl_iterate_phdr), but for FindNext, and nothing else.
// Ownership: none, and the object is not pinned. Failure: nullptr.
//
//   void* fn = FindInLoaded("libc10.so", "_ZN3c10...");

#ifndef GPUMEM_SHIM_BASE_SYMBOL_LOOKUP_H_
#define GPUMEM_SHIM_BASE_SYMBOL_LOOKUP_H_

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>

namespace gpumemshim {

// Looks for a default-version definition of `symbol` in the loaded objects whose file name begins with `file_prefix`,
// in load order, ourselves excepted. Copies the object's path to `path` where one is wanted.
void* FindInLoaded(const char* file_prefix, const char* symbol, char* path = nullptr, size_t path_capacity = 0);

// The default-version definition of `symbol` that a program would have without us: the first one after us in the order
// of look-ups. Takes no lock, so it may be called in a signal handler, and in a forked child whose loader's lock is
// held by a thread that it does not have. What it walks past are the libraries that the program was started with, up to
// the C library at the latest for symbols of that: they are never unloaded.
void* FindNext(const char* symbol);

// Path of the first loaded object whose file name begins with `file_prefix`; false where there is none.
bool FindLoadedPath(const char* file_prefix, char* path, size_t path_capacity);

// Copies the first name beginning with `prefix` among the libraries that the object around `address` was linked with.
bool FindNeeded(const void* address, const char* prefix, char* name, size_t capacity);

// The default-version definition of `symbol` in the object around `address`.
void* FindInObjectOf(const void* address, const char* symbol);

// True where `address` lies in our own mapping.
bool IsOwnAddress(const void* address);

// True where `address` lies in an object whose file name begins with `file_prefix`.
bool LiesIn(const void* address, const char* file_prefix);

// True where `address` lies in an object that was loaded before us: the program, or a preload named before us.
bool IsLoadedBeforeUs(const void* address);

// The dynamic symbols of one loaded object, read from its own tables.
//
// Thread-safety: pure reads; the object must not be unloaded meanwhile. Calls nothing. Failure: nullptr.
//
//   const SymbolTable table = ReadSymbolTable(dynamic_section, load_bias);
//   void* function = FindInTable(table, "dlsym");

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

#endif  // GPUMEM_SHIM_BASE_SYMBOL_LOOKUP_H_
