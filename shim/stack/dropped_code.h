// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Notices that the interpreter frees a code object: what was remembered about code objects by their addresses is true
// until then. No version before 3.12 tells it to anybody, and from there on only to who holds the GIL; so one word is
// written that the interpreter reads at no other time, the destructor in its type of code objects:
//
//   PyCode_Type.tp_dealloc ─► ours: count, then ─► the interpreter's
//
// Written once the interpreter was found readable, and only where it holds a function of the interpreter's own file.
// Who holds the GIL may be in the old one meanwhile: its code object is on no stack any more, so nobody remembers it.
// CodeEpoch looks at the word each time. Where somebody else took it, nothing is remembered.
//
// Thread-safety: WatchDroppedCode by one thread; the rest from any. A stack through a new code object at an old address
// was built under the GIL, which orders it behind the count. Failure: CodeEpoch is 0.
//
//   if (const uint64_t epoch = CodeEpoch(); epoch != 0 && epoch == then) return what_was_found_then;

#ifndef GPUMEM_SHIM_STACK_DROPPED_CODE_H_
#define GPUMEM_SHIM_STACK_DROPPED_CODE_H_

#include <atomic>
#include <cstdint>

namespace gpumemshim::stack {

// `code_type` is the interpreter's PyCode_Type.
void WatchDroppedCode(const void* code_type);

void CountDroppedCode(void* code);

struct DroppedCode {
  std::atomic<std::atomic<uintptr_t>*> destructor;  // the word in the type; nullptr: not watched
  std::atomic<uint64_t> count;                      // of code objects freed, from 1 on
};
extern DroppedCode g_dropped_code;

// As long as it stays the same, an address names the same code object. 0: that cannot be told.
inline uint64_t CodeEpoch() {
  const auto* destructor = g_dropped_code.destructor.load(std::memory_order_relaxed);
  if (destructor == nullptr) return 0;
  const auto own = reinterpret_cast<uintptr_t>(&CountDroppedCode);
  return destructor->load(std::memory_order_relaxed) == own ? g_dropped_code.count.load(std::memory_order_relaxed) : 0;
}

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_DROPPED_CODE_H_
