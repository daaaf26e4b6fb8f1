// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The slow path of a record, once in about 150 events: the thread's next chunk. Lock-free; waits only in TakeChunk.

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/base/clock.h"
#include "shim/ring/ring.h"
#include "shim/ring/state.h"

namespace gpumemshim::ring {

namespace {
constinit Hot g_inactive = {};
}
constinit State g_state = {};
constinit std::atomic<Hot*> g_hot{&g_inactive};
constinit std::atomic<uint32_t> g_wake{0};

Hot* InactiveHot() { return &g_inactive; }

void Wake() {
  // Only the first wish since the reader went to sleep costs a system call.
  if (g_wake.exchange(1, std::memory_order_acq_rel) != 0) return;
  int saved = errno;
  syscall(SYS_futex, &g_wake, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  errno = saved;
}

void SleepUntilWoken(uint64_t timeout_ns) {
  if (g_wake.load(std::memory_order_acquire) == 0) {
    const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000),
                           static_cast<long>(timeout_ns % 1'000'000'000)};
    syscall(SYS_futex, &g_wake, FUTEX_WAIT_PRIVATE, 0, &timeout, nullptr, 0);
  }
  g_wake.store(0, std::memory_order_release);
}

const char* Directory() { return g_state.directory; }

bool HeavyBarrier() { return g_state.barrier && syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0; }

namespace {

// Takes one from the count first, so that a bit is there for sure, then the bit. -1: nothing left for this kind.
int32_t ClaimChunk(Pool* pool, bool is_free, bool* from_reserve) {
  int32_t reserved = ReservedChunks(*pool);
  int32_t left = pool->free_chunks.load(std::memory_order_relaxed);
  do {
    if (left <= (is_free ? 0 : reserved)) return -1;
  } while (!pool->free_chunks.compare_exchange_weak(left, left - 1, std::memory_order_acquire));
  *from_reserve = left <= reserved;
  uint32_t words = (g_state.chunk_count + 63) / 64;
  for (uint32_t i = 0;; i = i + 1 == words ? 0 : i + 1) {
    uint64_t bits = pool->free_bits[i].load(std::memory_order_relaxed);
    while (bits != 0) {
      uint64_t bit = bits & (~bits + 1);
      if (pool->free_bits[i].compare_exchange_weak(bits, bits & ~bit, std::memory_order_acquire)) {
        return static_cast<int32_t>(i * 64 + static_cast<uint32_t>(__builtin_ctzll(bit)));
      }
    }
  }
}

// A ring that may still grow does so before anybody waits.
int32_t ClaimOrGrow(Pool* pool, bool is_free, bool* from_reserve) {
  int32_t index = ClaimChunk(pool, is_free, from_reserve);
  return index < 0 && g_state.populates && Grow(kHookStep) ? ClaimChunk(pool, is_free, from_reserve) : index;
}

constinit std::atomic<long> g_writer{0};  // its thread id

// Sleeps, so that the writer thread gets the processor: a wait in vain, and nobody waits again until there is room.
// Ends with the ring, too. A system call of its own: nanosleep would be a place to be cancelled at.
int32_t WaitLong(Pool* pool, uint32_t generation, bool is_free, bool* from_reserve) {
  constexpr timespec kPause = {0, 200'000};
  const Hot* hot = g_hot.load(std::memory_order_relaxed);
  const uint64_t deadline_ns = MonotonicNs() + g_state.wait_ns;
  while (pool->congested.load(std::memory_order_relaxed) == 0 &&
         hot->generation.load(std::memory_order_relaxed) == generation) {
    Wake();
    syscall(SYS_futex, &pool->congested, FUTEX_WAIT_PRIVATE, 0, &kPause, nullptr, 0);
    const int32_t index = ClaimOrGrow(pool, is_free, from_reserve);
    if (index >= 0) return index;
    if (MonotonicNs() >= deadline_ns) pool->congested.store(1, std::memory_order_relaxed);
  }
  return -1;
}

// Spins politely: a sleep would take the timer's slack, 50 us and more.
int32_t WaitForChunk(Pool* pool, uint32_t generation, bool is_free, bool* from_reserve) {
  if (pool->congested.load(std::memory_order_relaxed) != 0) return -1;
  Wake();
  if (g_state.wait_ns != 0) {
    const bool is_writer = g_writer.load(std::memory_order_relaxed) == syscall(SYS_gettid);
    return is_writer ? -1 : WaitLong(pool, generation, is_free, from_reserve);
  }
  uint64_t deadline_ns = MonotonicNs() + kMaxWaitNs - kMaxWaitNs / 5;
  do {
    sched_yield();
    int32_t index = ClaimOrGrow(pool, is_free, from_reserve);
    if (index >= 0) return index;
  } while (MonotonicNs() < deadline_ns);
  pool->congested.store(1, std::memory_order_relaxed);
  return -1;
}

// Closes the lane's chunk, unless the reader has taken it back; the store to in_flight and the fence are as in Record.
void LeaveChunk(Lane* lane, const Hot* hot, uint32_t generation) {
  lane->in_flight.store(hot->reader_time_ns.load(std::memory_order_relaxed), std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  uint32_t number = lane->number.load(std::memory_order_relaxed);
  if (lane->chunk != nullptr && lane->revoked.load(std::memory_order_relaxed) != number &&
      lane->generation == generation) {
    Atomic(lane->chunk->state).store(kChunkClosed, std::memory_order_release);
  }
  lane->data = nullptr;
  lane->chunk = nullptr;
  lane->in_flight.store(0, std::memory_order_release);
}

void EnterChunk(Lane* lane, uint32_t generation, uint32_t index, bool from_reserve) {
  ChunkDescriptor* chunk = &g_state.chunks[index];
  uint32_t number = lane->number.load(std::memory_order_relaxed) + 1;
  chunk->owner_tid = lane->tid.load(std::memory_order_relaxed);
  chunk->owner_serial = lane->serial;
  chunk->owner_lane = static_cast<uint32_t>(lane - g_state.pool->lanes);
  chunk->number = number;
  chunk->thread_name[0] = '\0';
  prctl(PR_GET_NAME, chunk->thread_name, 0, 0, 0);
  lane->number.store(number, std::memory_order_relaxed);
  lane->chunk = chunk;
  lane->position = 0;
  lane->from_reserve = from_reserve;
  lane->generation = generation;
  Atomic(chunk->state).store(kChunkOpen, std::memory_order_release);
  // Last: from here on a signal handler may write to it.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  lane->data = g_state.data + size_t{index} * kChunkBytes;
}

}  // namespace

void BecomeWriter() { g_writer.store(syscall(SYS_gettid), std::memory_order_relaxed); }

bool TakeChunk(Lane* lane, uint32_t generation, bool is_free) {
  int saved = errno;
  int32_t index = -1;
  const Hot* hot = g_hot.load(std::memory_order_relaxed);
  lane->taking.store(1, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  // Seen active after `taking` was set: Stop waits for us from here on.
  if (hot->generation.load(std::memory_order_relaxed) == generation) {
    Pool* pool = g_state.pool;
    bool from_reserve = false;
    index = ClaimOrGrow(pool, is_free, &from_reserve);
    if (index < 0) index = WaitForChunk(pool, generation, is_free, &from_reserve);
    if (index >= 0) {
      LeaveChunk(lane, hot, generation);
      EnterChunk(lane, generation, static_cast<uint32_t>(index), from_reserve);
      if (IsShort(*pool)) Wake();
    }
  }
  lane->taking.store(0, std::memory_order_release);
  errno = saved;
  return index >= 0;
}

}  // namespace gpumemshim::ring
