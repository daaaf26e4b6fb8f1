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

constexpr uint32_t kProbes = 2;
std::atomic<ThreadState*> g_states[kMaxStates];
std::atomic<uint32_t> g_state_count;            // entries below it may be filled
std::atomic<uint32_t> g_next_probe;             // an entry of the table; they are asked in turn
std::atomic<uint64_t> g_free[kMaxStates / 64];  // bit of each state that was found without an owner and not taken since
std::atomic<int32_t> g_process;

bool IsGone(int32_t thread) {
  const int32_t process = g_process.load(std::memory_order_relaxed);
  return syscall(SYS_tgkill, process != 0 ? process : getpid(), thread, 0) != 0 && errno == ESRCH;
}

constexpr int32_t ThreadOf(uint64_t owner) { return static_cast<int32_t>(owner); }

ThreadState* TakeFree() {
  const uint32_t words = (StateCount() + 63) / 64;
  for (uint32_t word = 0; word < words; ++word) {
    uint64_t bits = g_free[word].load(std::memory_order_relaxed);
    while (bits != 0) {
      const uint64_t bit = bits & (~bits + 1);
      if (!g_free[word].compare_exchange_weak(bits, bits & ~bit, std::memory_order_acquire)) continue;
      return g_states[word * 64 + static_cast<uint32_t>(__builtin_ctzll(bit))].load(std::memory_order_acquire);
    }
  }
  return nullptr;
}

void GiveFree(uint32_t entry) { g_free[entry / 64].fetch_or(uint64_t{1} << entry % 64, std::memory_order_release); }

// Whether the state's owner died, or had our thread id before us; then it has none from here on, and is the caller's.
bool TakeFromDead(ThreadState* state, int32_t self) {
  uint64_t owner = state->owner.load(std::memory_order_acquire);
  const int32_t thread = ThreadOf(owner);
  if (thread == 0 || (thread != self && !IsGone(thread))) return false;
  // Pairs with the same exchange in another new thread: one of them gets it, since each makes the count larger.
  return state->owner.compare_exchange_strong(owner, ((owner >> 32) + 1) << 32, std::memory_order_acq_rel);
}

// A state without an owner; nullptr: none is known. Looks at the next two in any case, so that the table is gone
// through at the same pace whatever is found.
ThreadState* TakeOver(int32_t self) {
  const uint32_t count = StateCount();
  ThreadState* mine = TakeFree();
  for (uint32_t i = 0; i < kProbes && count != 0; ++i) {
    uint32_t entry = g_next_probe.load(std::memory_order_relaxed);
    while (!g_next_probe.compare_exchange_weak(entry, entry + 1 < count ? entry + 1 : 0, std::memory_order_relaxed)) {
    }
    if (entry >= count) entry = 0;
    ThreadState* state = g_states[entry].load(std::memory_order_acquire);
    if (state == nullptr || !TakeFromDead(state, self)) continue;
    if (mine == nullptr) {
      mine = state;
    } else {
      GiveFree(entry);
    }
  }
  if (mine == nullptr) return nullptr;
  const uint64_t count_of_owners = mine->owner.load(std::memory_order_relaxed);
  for (NodeContext& node : mine->nodes) node.frame = 0;
  mine->owner.store(count_of_owners | static_cast<uint32_t>(self), std::memory_order_release);
  return mine;
}

ThreadState* Map(int32_t self) {
  uint32_t entry = StateCount();
  if (entry == kMaxStates) return nullptr;
  void* memory = mmap(nullptr, sizeof(ThreadState), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* state = static_cast<ThreadState*>(memory);
  state->owner.store(static_cast<uint32_t>(self), std::memory_order_relaxed);
  state->generation = g_generation.load(std::memory_order_relaxed);  // empty as it is; Clear would touch every page
  while (entry < kMaxStates && !g_state_count.compare_exchange_weak(entry, entry + 1, std::memory_order_release)) {
  }
  if (entry == kMaxStates) {
    munmap(memory, sizeof(ThreadState));
    return nullptr;
  }
  g_states[entry].store(state, std::memory_order_release);
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

void AdoptProcess() {
  g_process.store(getpid(), std::memory_order_relaxed);
  // A forked child's thread has the state that its parent's had, under the parent's thread id.
  if (t_state != nullptr) t_state->owner.store(static_cast<uint32_t>(syscall(SYS_gettid)), std::memory_order_release);
}

uint32_t StateCount() { return g_state_count.load(std::memory_order_acquire); }

void ForgetSent() { g_generation.fetch_add(1, std::memory_order_relaxed); }

}  // namespace gpumemshim::stack
