// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/dropped_code.h"

#include <link.h>

#include "shim/base/loader.h"
#include "shim/stack/python_layout.h"

namespace gpumemshim::stack {

constinit DroppedCode g_dropped_code{nullptr, 1};

namespace {

using Destructor = void (*)(void*);

constinit std::atomic<Destructor> g_destructor{nullptr};  // the interpreter's

struct Places {
  uintptr_t word;
  uintptr_t function;
  bool word_is_writable;
  bool function_is_code;
};

// In the object that holds the word: whether the word may be written and the function lies there too.
int Visit(dl_phdr_info* object, size_t, void* data) {
  auto* places = static_cast<Places*>(data);
  bool found = false;
  bool sealed = false;  // read-only once it was relocated
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    const uintptr_t start = object->dlpi_addr + segment.p_vaddr;
    const bool holds_word = places->word - start < segment.p_memsz;
    if (segment.p_type == PT_GNU_RELRO && holds_word) sealed = true;
    if (segment.p_type != PT_LOAD) continue;
    found = found || holds_word;
    if (holds_word && (segment.p_flags & PF_W) != 0) places->word_is_writable = true;
    if (places->function - start < segment.p_memsz && (segment.p_flags & PF_X) != 0) places->function_is_code = true;
  }
  if (!found) places->function_is_code = false;
  if (sealed) places->word_is_writable = false;
  return found ? 1 : 0;
}

}  // namespace

void WatchDroppedCode(const void* code_type) {
  if (code_type == nullptr || g_dropped_code.destructor.load(std::memory_order_relaxed) != nullptr) return;
  const uintptr_t word = reinterpret_cast<uintptr_t>(code_type) + kTypeDestructor;
  auto* destructor = reinterpret_cast<std::atomic<uintptr_t>*>(word);
  uintptr_t original = destructor->load(std::memory_order_relaxed);
  Places places{word, original, false, false};
  loader::Iterate(&Visit, &places);
  if (!places.word_is_writable || !places.function_is_code) return;
  g_destructor.store(reinterpret_cast<Destructor>(original), std::memory_order_release);
  // Pairs with the interpreter's own load of the word: CountDroppedCode finds g_destructor set.
  if (!destructor->compare_exchange_strong(original, reinterpret_cast<uintptr_t>(&CountDroppedCode),
                                           std::memory_order_acq_rel)) {
    return;
  }
  g_dropped_code.destructor.store(destructor, std::memory_order_release);
}

void CountDroppedCode(void* code) {
  g_dropped_code.count.fetch_add(1, std::memory_order_relaxed);
  g_destructor.load(std::memory_order_acquire)(code);
}

}  // namespace gpumemshim::stack
