// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How libunwind reads a stack. Where it guesses it asks whether an address may be read, by a write of the byte there
// into a pipe; it keeps that pipe by number, and a program that closes descriptors it does not know is given the number
// for a file of its own, which then gets bytes of the stack. So every word that libunwind reads in this process is read
// by us (TryRead), which needs no descriptor; and its pipe is opened on a thread with descriptors of its own, and goes
// with that.
//
// Thread-safety: TakeOverMemory once, at set-up; PagesOnce belongs to one thread. Failure: TakeOverMemory returns
// false, and this libunwind is not to be used.
//
//   if (!TakeOverMemory(library)) return false;  // before anything else of the library is called
//   const PagesOnce once;
//   unw_backtrace(out, capacity);

#ifndef GPUMEM_SHIM_STACK_UNWINDER_MEMORY_H_
#define GPUMEM_SHIM_STACK_UNWINDER_MEMORY_H_

#include <cstdint>

#include "shim/stack/thread_state.h"

namespace gpumemshim::stack {

bool TakeOverMemory(void* libunwind);

// While it lives a page that could be read is taken for one that can: of one stack, and not for longer. Without a
// thread's state each word is asked for.
class PagesOnce {
 public:
  PagesOnce() : state_(t_state) { Set(kNoPageYet); }
  ~PagesOnce() { Set(kNoPages); }
  PagesOnce(const PagesOnce&) = delete;
  PagesOnce& operator=(const PagesOnce&) = delete;

 private:
  void Set(uintptr_t page) const {
    if (state_ != nullptr) state_->readable_page = page;
  }

  ThreadState* const state_;
};

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_UNWINDER_MEMORY_H_
