// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Puts off pthread_cancel of this thread for a scope. The program's own call need not be a cancellation point, so ours
// inside of it must not be one either: the thread would be unwound out of a hook, with what the call gave it lost, and
// the event with it.
//
// Thread-safety: of the calling thread only. Async-signal-safe in glibc. Does not fail.
//
//   const NoCancellation no_cancellation;
//   Write(pipe);  // goes through

#ifndef GPUMEM_SHIM_BASE_NO_CANCELLATION_H_
#define GPUMEM_SHIM_BASE_NO_CANCELLATION_H_

#include <pthread.h>

namespace gpumemshim {

class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace gpumemshim

#endif  // GPUMEM_SHIM_BASE_NO_CANCELLATION_H_
