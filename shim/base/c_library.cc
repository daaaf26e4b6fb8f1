// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/c_library.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <cstdint>

#include "shim/base/plain_text.h"
#include "shim/base/symbol_lookup.h"

namespace gpumemshim::c_library {
namespace {

// The program's own headers, where the kernel or the loader says that they are.
const r_debug* LoaderDebug() {
  const auto* headers = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
  const uint64_t count = getauxval(AT_PHNUM);
  if (headers == nullptr) return nullptr;
  uintptr_t load_bias = 0;
  const ElfW(Dyn)* dynamic = nullptr;
  for (uint64_t i = 0; i < count; ++i) {  // the entry of the headers themselves comes before all others
    const ElfW(Phdr)& header = headers[i];
    if (header.p_type == PT_PHDR) load_bias = reinterpret_cast<uintptr_t>(headers) - header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(load_bias + header.p_vaddr);
  }
  for (; dynamic != nullptr && dynamic->d_tag != DT_NULL; ++dynamic) {
    if (dynamic->d_tag == DT_DEBUG) return reinterpret_cast<const r_debug*>(dynamic->d_un.d_ptr);
  }
  return nullptr;
}

}  // namespace

// Before glibc 2.34 some of it was in libraries of their own, which stand before libc.so.6 in a program's list.
void* Find(const char* name) {
  const r_debug* debug = LoaderDebug();
  for (const link_map* object = debug == nullptr ? nullptr : debug->r_map; object != nullptr; object = object->l_next) {
    const char* file = plain::FileName(object->l_name);
    const bool is_last = plain::StartsWith(file, "libc.so.6") || plain::StartsWith(file, "ld-musl-");
    if (!is_last && !plain::StartsWith(file, "libdl.so.2") && !plain::StartsWith(file, "libpthread.so.0")) continue;
    void* found = FindInTable(ReadSymbolTable(object->l_ld, object->l_addr), name);
    if (found != nullptr || is_last) return found;
  }
  return nullptr;
}

}  // namespace gpumemshim::c_library
