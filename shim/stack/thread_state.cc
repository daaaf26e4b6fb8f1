// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/thread_state.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace gpumemshim::stack {

constinit thread_local ThreadState* t_state = nullptr;
constinit std::atomic<uint32_t> g_generation{1};

namespace {

constexpr uint32_t kPoolSize = 1024;
std::atomic<ThreadState*> g_pool[kPoolSize];
std::atomic<uint32_t> g_pool_used;  // slots below it may be filled

bool IsGone(int32_t thread) { return syscall(SYS_tgkill, getpid(), thread, 0) != 0 && errno == ESRCH; }

// A state whose owner died, or had our thread id before us.
ThreadState* TakeOver(int32_t self) {
  const uint32_t used = g_pool_used.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < used && i < kPoolSize; ++i) {
    ThreadState* state = g_pool[i].load(std::memory_order_acquire);
    if (state == nullptr) continue;
    int32_t owner = state->owner.load(std::memory_order_acquire);
    if (owner != self && !IsGone(owner)) continue;
    // Pairs with the same exchange in another new thread: one of them gets it.
    if (owner != self && !state->owner.compare_exchange_strong(owner, self, std::memory_order_acq_rel)) continue;
    for (NodeContext& node : state->nodes) node.frame = 0;
    return state;
  }
  return nullptr;
}

ThreadState* Map(int32_t self) {
  void* memory = mmap(nullptr, sizeof(ThreadState), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* state = static_cast<ThreadState*>(memory);
  state->owner.store(self, std::memory_order_relaxed);
  // Past the pool's end a state is not found again: its pages stay for good, which 1,024 live threads must do first.
  const uint32_t slot = g_pool_used.fetch_add(1, std::memory_order_relaxed);
  if (slot < kPoolSize) g_pool[slot].store(state, std::memory_order_release);
  return state;
}

ThreadState* Acquire() {
  const int saved_errno = errno;
  const auto self = static_cast<int32_t>(syscall(SYS_gettid));
  ThreadState* state = TakeOver(self);
  if (state == nullptr) state = Map(self);
  t_state = state;
  errno = saved_errno;
  return state;
}

}  // namespace

ThreadState* RenewThread() {
  ThreadState* state = t_state != nullptr ? t_state : Acquire();
  const uint32_t generation = g_generation.load(std::memory_order_relaxed);
  if (state != nullptr && state->generation != generation) {
    state->stacks.Clear();
    state->codes.Clear();
    state->generation = generation;
  }
  return state;
}

void ForgetSent() { g_generation.fetch_add(1, std::memory_order_relaxed); }

}  // namespace gpumemshim::stack
