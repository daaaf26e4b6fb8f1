// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What stack capture keeps for each thread: its buffers and the sets of definitions already sent. Mapped at a thread's
// first event (pages cost memory only once touched), found by one initial-exec TLS word, and taken over by a later
// thread once its owner is gone: no thread-exit hook, no heap. (A destructor of a pthread key would run among the
// host's, in an order that nobody knows, take one of its 1,024 keys, and not run at all where a thread ends by the
// system call.)
//
// Each new thread asks the kernel for two of the known owners whether they are gone, the next two in turn, and leaves
// what it does not need for the next one. P states are gone through by P / 2 threads, which need no new one where that
// finds P / 2 without an owner: so there are never more than about twice as many as threads were alive at a time, and a
// thread's first event costs the same however many there are.
//
// Thread-safety: CurrentThread from any thread; the state belongs to the caller alone. Failure: nullptr where no memory
// can be had, or kMaxStates are in use.

#ifndef GPUMEM_SHIM_STACK_THREAD_STATE_H_
#define GPUMEM_SHIM_STACK_THREAD_STATE_H_

#include <atomic>
#include <cstdint>

#include "shim/ring/ring.h"
#include "shim/stack/autograd_nodes.h"
#include "shim/stack/known_positions.h"
#include "shim/stack/native_unwind.h"
#include "shim/stack/path_cache.h"
#include "shim/stack/successor_cache.h"

namespace gpumemshim::stack {

inline constexpr uint32_t kDepthHints = 1024;
inline constexpr uint32_t kMaxStates = 8192;  // twice as many as threads that the ring takes at a time

struct ThreadState {
  std::atomic<uint64_t> owner;       // kernel thread id, 0 = none; above it, how often it was without one
  uint32_t generation;               // of the definitions sent; see ForgetSent
  NodeContext nodes[kMaxNodes];      // autograd nodes that it is in, outermost first
  uintptr_t readable_page;           // the one that was read last (unwinder_memory.h)
  uint64_t last_native;              // hash of the native part of the last stack
  uint16_t depth_hint[kDepthHints];  // by Python position: native frames down to the interpreter
  void* pcs[kMaxUnwind];
  ring::RawFrame frames[ring::kMaxFrames];
  SeenSet<16384> stacks;
  SeenSet<4096> codes;
  PathCache paths;
  KnownPositions positions;
};

// Of ThreadState::readable_page: none is remembered; none so far.
inline constexpr uintptr_t kNoPages = 0;
inline constexpr uintptr_t kNoPageYet = 1;

extern constinit thread_local ThreadState* t_state __attribute__((tls_model("initial-exec")));
extern std::atomic<uint32_t> g_generation;

// The slow part of CurrentThread: a thread's first event, and its first one after ForgetSent.
ThreadState* RenewThread();

// The calling thread's state.
inline ThreadState* CurrentThread() {
  ThreadState* state = t_state;
  if (state != nullptr && state->generation == g_generation.load(std::memory_order_relaxed)) [[likely]]
    return state;
  return RenewThread();
}

// At set-up, and in a forked child: threads are those of this process. So a child in its parent's memory takes over
// nothing of threads that live.
void AdoptProcess();

// How many states there are, in use or not.
uint32_t StateCount();

// Makes every thread send its definitions anew: a new ring has none of them.
void ForgetSent();

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_THREAD_STATE_H_
