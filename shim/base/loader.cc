// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/loader.h"

#include <time.h>

#include <atomic>
#include <cerrno>

#include "shim/base/c_library.h"
#include "shim/base/clock.h"

namespace gpumemshim::loader {
namespace {

constexpr uint32_t kFork = 1 << 16;  // users are counted below it, forks in units of it
constexpr uint32_t kUsers = kFork - 1;
constexpr uint64_t kPatienceNs = uint64_t{kPatienceMs} * 1'000'000;
constexpr long kNapNs = 100'000;

// A user's increment and a fork's are of one word, so each sees the other: no user comes in unseen.
std::atomic<uint32_t> g_gate;
// How deep the calling thread is in uses and forks: it must not wait for itself.
constinit thread_local uint8_t t_depth = 0;

void Nap() {
  const timespec time = {0, kNapNs};
  nanosleep(&time, nullptr);
}

// Also where the count is gone already: a fork that lost its patience has forgotten its users.
void Leave() {
  uint32_t value = g_gate.load(std::memory_order_relaxed);
  while ((value & kUsers) != 0 && !g_gate.compare_exchange_weak(value, value - 1, std::memory_order_release)) {
  }
}

[[gnu::cold, gnu::noinline]] void WaitForForks() {
  const int saved_errno = errno;
  const uint64_t end_ns = MonotonicNs() + kPatienceNs;
  do {
    Leave();
    while (g_gate.load(std::memory_order_relaxed) >= kFork && MonotonicNs() < end_ns) Nap();
  } while (g_gate.fetch_add(1, std::memory_order_acquire) >= kFork && MonotonicNs() < end_ns);
  errno = saved_errno;
}

using IterateFunction = decltype(&dl_iterate_phdr);
std::atomic<IterateFunction> g_iterate;

// The C library's own: what the runtimes of sanitizers put in front of it is not fit to be called before they have
// looked everything up, by our dlsym.
IterateFunction RealIterate() {
  IterateFunction known = g_iterate.load(std::memory_order_relaxed);
  if (known == nullptr) {
    known = reinterpret_cast<IterateFunction>(c_library::Find("dl_iterate_phdr"));
    if (known == nullptr) known = &dl_iterate_phdr;
    g_iterate.store(known, std::memory_order_relaxed);
  }
  return known;
}

}  // namespace

Use::Use() {
  if (t_depth++ != 0) return;
  if (g_gate.fetch_add(1, std::memory_order_acquire) >= kFork) WaitForForks();
}

Use::~Use() {
  if (--t_depth == 0) Leave();
}

int Iterate(int (*visit)(dl_phdr_info* object, size_t size, void* data), void* data) {
  const Use use;
  return RealIterate()(visit, data);
}

bool ForkWaits() { return g_gate.load(std::memory_order_relaxed) >= kFork; }

void BeforeFork() {
  const int saved_errno = errno;
  const uint32_t own = t_depth++ != 0 ? 1 : 0;  // in a use: of an initializer that a dlopen of ours runs, say
  g_gate.fetch_add(kFork, std::memory_order_acquire);
  const uint64_t end_ns = MonotonicNs() + kPatienceNs;
  while ((g_gate.load(std::memory_order_acquire) & kUsers) > own) {
    if (MonotonicNs() > end_ns) {
      // A thread that was ended, or jumped out of a hook: later forks must not wait for it too.
      g_gate.fetch_and(~kUsers, std::memory_order_relaxed);
      break;
    }
    Nap();
  }
  errno = saved_errno;
}

void AfterForkInParent() {
  --t_depth;
  g_gate.fetch_sub(kFork, std::memory_order_release);
}

void ForgetInChild() {
  if (t_depth != 0) --t_depth;  // 0: a child that ran no fork handler
  g_gate.store(t_depth != 0 ? 1 : 0, std::memory_order_relaxed);
}

}  // namespace gpumemshim::loader
