// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Programs built with a memory or thread checker (MSan, TSan, ASan, MemProf) bring a runtime that stands in front of
// the C library. Its checks are about the program's code: our stores are not instrumented, so what we read it would
// report as uninitialised, and what two of our threads share as a race, and end the program. So our own calls go past
// it.
//
//   before   write@GOT -> the runtime's write -> libc's write
//   after    write@GOT ------------------------> libc's write
//
// A checker is an object that defines both memcpy and write; other preloads keep their place in front of us. Memory
// that is handed over (malloc) and threads stay with the runtime, which must know of them.
//
// Thread-safety: any thread; a second one does not wait for the first. Calls nothing that could be the runtime's.
// Failure: where our table of addresses cannot be made writable everything stays as it was.
//
//   BypassMemoryCheckers();   // first of all, where anything but a look-up begins

#ifndef GPUMEM_SHIM_BASE_MEMORY_CHECKERS_H_
#define GPUMEM_SHIM_BASE_MEMORY_CHECKERS_H_

#include <atomic>

namespace gpumemshim {

extern std::atomic<bool> g_past_memory_checkers;
void FindAndBypassMemoryCheckers();

// True where one was found, or the program runs in valgrind. libunwind is not used then: it takes locks when a thread
// has left the runtime's books, and asks the kernel about memory that holds nothing yet.
bool HasMemoryChecker();

inline void BypassMemoryCheckers() {
  if (!g_past_memory_checkers.load(std::memory_order_relaxed)) FindAndBypassMemoryCheckers();
}

}  // namespace gpumemshim

#endif  // GPUMEM_SHIM_BASE_MEMORY_CHECKERS_H_
