// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The recorder's own threads, and how they wait for each other.
//
// Thread-safety: any thread. No allocation of ours; pthread_create maps the thread's stack.
//
//   if (!StartThread(&run->thread, &Main, run)) return false;
//   FutexWait(&run->finished, 0, 100'000'000);

#ifndef GPUMEM_SHIM_BASE_THREAD_H_
#define GPUMEM_SHIM_BASE_THREAD_H_

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstdint>

namespace gpumemshim {

// Starts `main(argument)` with a stack of 512 KiB and all signals blocked: the host's handlers never run on our
// threads. False: the system gave no thread.
bool StartThread(pthread_t* thread, void* (*main)(void*), void* argument);

// While it lives no handler of the host's runs on the calling thread, those of faults excepted: for what must not be
// left half done by a handler that ends the process.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// Sleeps until a FutexWakeAll of `word`, at most `timeout_ns`; returns at once where `*word` is not `value`. May also
// return for no reason: ask again.
void FutexWait(std::atomic<uint32_t>* word, uint32_t value, uint64_t timeout_ns);

// Wakes every thread of this process that sleeps at `word`.
void FutexWakeAll(std::atomic<uint32_t>* word);

// Puts off pthread_cancel of this thread for a scope. The program's own call need not be a cancellation point, so ours
// inside of it must not be one either: the thread would be unwound out of a hook, with what the call gave it lost, and
// the event with it.
//
// Thread-safety: of the calling thread only. Async-signal-safe in glibc. Does not fail.
//
//   const NoCancellation no_cancellation;
//   Write(pipe);  // goes through
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

#endif  // GPUMEM_SHIM_BASE_THREAD_H_
