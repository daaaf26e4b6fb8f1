// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A thread's lane, at its first record. Lock-free; the same few cache lines are looked at however many threads there
// are. Lanes of threads that are gone are given back by the reader (ReapLanes), oftener where there are many.

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/base/clock.h"
#include "shim/ring/ring.h"
#include "shim/ring/state.h"

namespace gpumemshim::ring {

constinit thread_local Lane* t_lane = nullptr;

namespace {

constexpr uint64_t kLaneWaitNs = kMaxWaitNs - kMaxWaitNs / 5;

void RaiseLimit(std::atomic<uint32_t>& limit, uint32_t value) {
  uint32_t seen = limit.load(std::memory_order_relaxed);
  while (seen < value && !limit.compare_exchange_weak(seen, value, std::memory_order_release)) {
  }
}

// The lowest free one, so that the reader has few to look at. -1: all are taken.
int32_t ClaimLane(Pool* pool) {
  for (uint32_t word = 0; word < kMaxLanes / 64; word++) {
    uint64_t taken = pool->taken_lanes[word].load(std::memory_order_relaxed);
    while (~taken != 0) {
      const uint64_t bit = ~taken & (taken + 1);
      if (pool->taken_lanes[word].compare_exchange_weak(taken, taken | bit, std::memory_order_acquire)) {
        return static_cast<int32_t>(word * 64 + static_cast<uint32_t>(__builtin_ctzll(bit)));
      }
    }
  }
  return -1;
}

// Threads may be gone whose lanes the reader has not found yet.
int32_t WaitForLane(Pool* pool) {
  if (pool->lanes_short.load(std::memory_order_relaxed) != 0) return -1;  // somebody waited in vain
  Wake();
  const uint64_t deadline_ns = MonotonicNs() + kLaneWaitNs;
  do {
    sched_yield();
    const int32_t index = ClaimLane(pool);
    if (index >= 0) return index;
  } while (MonotonicNs() < deadline_ns);
  pool->lanes_short.store(1, std::memory_order_relaxed);
  return -1;
}

void EnterLane(Pool* pool, Lane* lane, uint32_t tid) {
  lane->abandoned.store(0, std::memory_order_relaxed);
  lane->number.store(0, std::memory_order_relaxed);
  lane->revoked.store(0, std::memory_order_relaxed);
  lane->data = nullptr;
  lane->chunk = nullptr;
  lane->position = 0;
  lane->generation = 0;
  lane->serial = pool->last_serial.fetch_add(1, std::memory_order_relaxed) + 1;
  lane->tid.store(tid, std::memory_order_release);
}

bool IsOwn(const Pool* pool, const Lane* lane, uint32_t tid) {
  return lane >= pool->lanes && lane < pool->lanes + kMaxLanes && lane->tid.load(std::memory_order_relaxed) == tid;
}

}  // namespace

Lane* TakeLane() {
  Pool* pool = g_state.pool;
  const auto tid = static_cast<uint32_t>(syscall(SYS_gettid));
  if (IsOwn(pool, t_lane, tid)) return t_lane;
  int32_t index = ClaimLane(pool);
  if (index < 0) index = WaitForLane(pool);
  if (index < 0) return nullptr;
  Lane* lane = &pool->lanes[index];
  EnterLane(pool, lane, tid);
  RaiseLimit(pool->lane_limit, static_cast<uint32_t>(index) + 1);
  if (index >= static_cast<int32_t>(kManyLanes)) Wake();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  // A signal handler that recorded in the middle of this has one by now, with its records in it.
  if (IsOwn(pool, t_lane, tid)) {
    lane->abandoned.store(1, std::memory_order_relaxed);
    return t_lane;
  }
  t_lane = lane;
  return lane;
}

void AbandonRecord() {
  Lane* lane = t_lane;
  if (g_state.pool == nullptr || !IsOwn(g_state.pool, lane, static_cast<uint32_t>(syscall(SYS_gettid)))) return;
  lane->taking.store(0, std::memory_order_release);
  lane->in_flight.store(0, std::memory_order_release);
}

}  // namespace gpumemshim::ring
