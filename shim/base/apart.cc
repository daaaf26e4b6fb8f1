// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/apart.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "shim/base/descriptors.h"
#include "shim/base/thread.h"

namespace gpumemshim::apart {
namespace {

constexpr uint64_t kWaitNs = 100'000'000;  // then it looks again
constexpr uint64_t kIdleNs = 3'600'000'000'000;
constexpr uint32_t kStopAttempts = 20;
constexpr uint64_t kStopWaitNs = 5'000'000;

enum State : uint32_t { kNone, kStarting, kIdle, kPosted, kDone, kEnding };

std::atomic<uint32_t> g_state{kNone};  // futex
std::atomic<uint32_t> g_turn{0};       // futex: 1 = somebody's work is being done
std::atomic<int32_t> g_thread_id{0};
pthread_t g_thread;
void (*g_work)(void*);
void* g_data;

void Enter(State state) {
  g_state.store(state, std::memory_order_release);
  FutexWakeAll(&g_state);
}

// Returns the state that follows `state`.
uint32_t Await(State state) {
  uint32_t now = g_state.load(std::memory_order_acquire);
  for (; now == state; now = g_state.load(std::memory_order_acquire)) FutexWait(&g_state, state, kWaitNs);
  return now;
}

bool TakeTurn() {
  uint32_t free = 0;
  return g_turn.compare_exchange_strong(free, 1, std::memory_order_acquire);
}

void GiveTurn() {
  g_turn.store(0, std::memory_order_release);
  FutexWakeAll(&g_turn);
}

// What writes to a standard stream is not to write into a file of ours.
void OpenStandardStreams() {
  while (true) {
    const int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd >= 0 && fd <= STDERR_FILENO) continue;
    if (fd >= 0) close(fd);
    return;
  }
}

void* Main(void*) {
  prctl(PR_SET_NAME, "gpumemshim-file", 0, 0, 0);
  if (!descriptors::LeaveTable(STDIN_FILENO)) {
    Enter(kNone);
    return nullptr;
  }
  OpenStandardStreams();
  g_thread_id.store(static_cast<int32_t>(syscall(SYS_gettid)), std::memory_order_relaxed);
  Enter(kIdle);
  while (true) {
    uint32_t state = g_state.load(std::memory_order_acquire);
    if (state == kEnding) return nullptr;
    if (state == kPosted) {
      g_work(g_data);
      Enter(kDone);
      state = kDone;
    }
    FutexWait(&g_state, state, kIdleNs);
  }
}

bool IsHere() {
  return g_state.load(std::memory_order_acquire) == kNone ||
         g_thread_id.load(std::memory_order_relaxed) == static_cast<int32_t>(syscall(SYS_gettid));
}

}  // namespace

void Start() {
  uint32_t none = kNone;
  if (!g_state.compare_exchange_strong(none, kStarting, std::memory_order_acq_rel)) return;
  if (!StartThread(&g_thread, &Main, nullptr)) {
    Enter(kNone);
  } else if (Await(kStarting) == kNone) {
    pthread_join(g_thread, nullptr);
  }
}

void DoWork(void (*work)(void*), void* data) {
  if (IsHere()) return work(data);
  while (!TakeTurn()) FutexWait(&g_turn, 1, kWaitNs);
  if (g_state.load(std::memory_order_acquire) != kIdle) {  // it was stopped meanwhile
    GiveTurn();
    return work(data);
  }
  g_work = work;
  g_data = data;
  Enter(kPosted);
  Await(kPosted);
  Enter(kIdle);
  GiveTurn();
}

void Stop() {
  if (g_state.load(std::memory_order_acquire) == kNone) return;
  for (uint32_t attempt = 0; !TakeTurn(); ++attempt) {
    if (attempt == kStopAttempts) return;
    FutexWait(&g_turn, 1, kStopWaitNs);
  }
  Enter(kEnding);
  pthread_join(g_thread, nullptr);
  g_thread_id.store(0, std::memory_order_relaxed);
  Enter(kNone);
  GiveTurn();
}

void ForgetInChild() {
  g_thread_id.store(0, std::memory_order_relaxed);
  g_state.store(kNone, std::memory_order_relaxed);
  g_turn.store(0, std::memory_order_relaxed);
}

}  // namespace gpumemshim::apart
