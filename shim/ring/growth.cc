// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How many chunks of the ring have memory. It begins with a few; more follow when they are needed: the writer thread
// adds some in time (Maintain), and a thread that finds none adds a few for itself and others (Grow). The last ones are
// given back where the ring was not used for a while.
//
//    0 ........... present ........... allowed ........... chunk_count
//      has blocks   the file is as long  needs a larger claim (mapping.h)
//
// A compare-and-swap on `present` makes a range of chunks somebody's, who gives them their blocks and hands them out:
// nobody waits for another, and who dies in between costs its range. Taking back goes the other way around: out of the
// free ones first, then the blocks, then `present`, so that nobody gives them blocks anew before they are gone.
//
// Failure: the ring stays as it is; where there is no room, `allowed` comes down, and nobody asks until the writer
// thread does again.

#include "shim/ring/mapping.h"
#include "shim/ring/ring.h"
#include "shim/ring/state.h"

namespace gpumemshim::ring {
namespace {

constexpr uint64_t kClaimIntervalNs = 1'000'000'000;
constexpr uint64_t kShrinkIntervalNs = 5'000'000'000;

size_t OffsetOf(uint32_t chunk) {
  return static_cast<size_t>(g_state.data - reinterpret_cast<uint8_t*>(g_state.header)) + size_t{chunk} * kChunkBytes;
}

// Bits before the count, as everywhere: who takes one from the count finds a bit.
void HandOut(Pool* pool, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++) {
    pool->free_bits[i / 64].fetch_or(uint64_t{1} << (i % 64), std::memory_order_release);
  }
  pool->free_chunks.fetch_add(static_cast<int32_t>(to - from), std::memory_order_release);
  pool->congested.store(0, std::memory_order_relaxed);
}

// False: it is not free.
bool TakeOut(Pool* pool, uint32_t index) {
  int32_t left = pool->free_chunks.load(std::memory_order_relaxed);
  do {
    if (left <= ReservedChunks(*pool)) return false;
  } while (!pool->free_chunks.compare_exchange_weak(left, left - 1, std::memory_order_acquire));
  const uint64_t bit = uint64_t{1} << (index % 64);
  if ((pool->free_bits[index / 64].fetch_and(~bit, std::memory_order_acquire) & bit) != 0) return true;
  pool->free_chunks.fetch_add(1, std::memory_order_release);
  return false;
}

// Makes the file longer, as far as there is room for it. True: there is something to grow into.
bool Allow(Pool* pool, uint32_t chunks) {
  if (chunks > g_state.chunk_count) chunks = g_state.chunk_count;
  const size_t bytes = ClaimBytes(OffsetOf(chunks));
  const uint32_t present = pool->present_chunks.load(std::memory_order_relaxed);
  if (bytes < OffsetOf(present + 1)) return false;
  const auto allowed = static_cast<uint32_t>((bytes - OffsetOf(0)) / kChunkBytes);
  // Before any of them is handed out: a recovery reads no chunk beyond.
  Atomic(g_state.header->chunk_count).store(allowed, std::memory_order_release);
  Atomic(g_state.header->size_bytes).store(OffsetOf(allowed), std::memory_order_release);
  pool->allowed_chunks.store(allowed, std::memory_order_release);
  return true;
}

// By so many at a time: what has no blocks yet cannot be handed out, but counts for the reserve (ReservedChunks).
// False: none at all.
bool GrowInSteps(uint32_t chunks) {
  constexpr uint32_t kStep = 64;
  bool any = false;
  for (uint32_t step = 0; chunks != 0; chunks -= step) {
    step = chunks < kStep ? chunks : kStep;
    if (!Grow(step)) break;
    any = true;
  }
  return any;
}

struct Use {
  uint64_t since_ns, claimed_ns;
  uint32_t most, generation;
};
constinit Use g_use = {};  // the writer thread's

}  // namespace

bool Grow(uint32_t step) {
  Pool* pool = g_state.pool;
  uint32_t from = pool->present_chunks.load(std::memory_order_relaxed), to;
  do {
    const uint32_t allowed = pool->allowed_chunks.load(std::memory_order_acquire);
    if (from >= allowed) return false;
    to = allowed - from < step ? allowed : from + step;
  } while (!pool->present_chunks.compare_exchange_weak(from, to, std::memory_order_acquire));
  if (AllocateBlocks(OffsetOf(from), size_t{to - from} * kChunkBytes)) {
    HandOut(pool, from, to);
    return true;
  }
  pool->allowed_chunks.store(from, std::memory_order_relaxed);
  uint32_t last = to;  // where somebody else went on meanwhile, these are lost
  pool->present_chunks.compare_exchange_strong(last, from, std::memory_order_release);
  return false;
}

void Shrink(uint32_t target) {
  Pool* pool = g_state.pool;
  const uint32_t present = pool->present_chunks.load(std::memory_order_acquire);
  uint32_t to = present;
  while (to > target && TakeOut(pool, to - 1)) to--;
  if (to == present) return;
  const size_t bytes = size_t{present - to} * kChunkBytes;
  FreeBlocks(OffsetOf(to), bytes);
  uint32_t last = present;
  if (pool->present_chunks.compare_exchange_strong(last, to, std::memory_order_release)) return;
  if (AllocateBlocks(OffsetOf(to), bytes)) HandOut(pool, to, present);  // somebody grew it: it is needed after all
}

void Maintain(uint64_t now_ns) {
  Pool* pool = g_state.pool;
  if (g_state.path[0] == '\0' || !Active()) return;
  const uint32_t present = pool->present_chunks.load(std::memory_order_relaxed);
  const auto used = present - static_cast<uint32_t>(pool->free_chunks.load(std::memory_order_relaxed));
  if (g_use.generation != g_state.generation) g_use = {now_ns, 0, 0, g_state.generation};
  if (used > g_use.most) g_use.most = used;
  if (IsShort(*pool)) {
    if (GrowInSteps(present) || present == g_state.chunk_count || now_ns - g_use.claimed_ns < kClaimIntervalNs) return;
    if (!Allow(pool, 2 * present) || !GrowInSteps(present)) g_use.claimed_ns = now_ns;
  } else if (now_ns - g_use.since_ns >= kShrinkIntervalNs) {
    if (g_use.most < present / 4) Shrink(present / 2 < g_state.first_chunks ? g_state.first_chunks : present / 2);
    g_use.since_ns = now_ns;
    g_use.most = used;
  }
}

}  // namespace gpumemshim::ring
