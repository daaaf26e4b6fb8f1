// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the ring keeps in ordinary memory: the word that says whether it is active, a lane for each thread, the free
// chunks. Shared by the ring's own files; nobody else includes it.
//
// Thread-safety: each field says who writes it. Lifetime: once made, Hot and Pool are never unmapped, because a thread
// may have read their address long ago; a forked child makes itself a new Pool. docs/ring.md gives the pairs of the
// atomic operations.

#ifndef GPUMEM_SHIM_RING_STATE_H_
#define GPUMEM_SHIM_RING_STATE_H_

#include <atomic>
#include <cstdint>

#include "shim/ring/layout.h"

namespace gpumemshim::ring {

inline constexpr uint32_t kMaxLanes = 32768;  // threads alive at a time that record
inline constexpr uint32_t kManyLanes = 1024;  // from so many on the reader looks oftener who is gone
inline constexpr uint32_t kMaxChunks = kMaxSizeBytes / kChunkBytes;

// A page that the kernel empties in a forked child, so the first thing that a hook reads is right there too.
struct Hot {
  std::atomic<uint32_t>
      generation;                // of the active ring; 0 = inactive. Release store by Start, acquire load by Record.
  std::atomic<uint32_t> mapped;  // 1 while the mapping may be read
  std::atomic<uint64_t> reader_time_ns;  // a time that has passed; the reader moves it on
};

// One thread's place to write, one cache line. It belongs to the thread from its first record until the reader finds
// the thread gone.
struct alignas(64) Lane {
  // 0, or, while a record is being made, a time not later than the record's. Owner stores, reader loads.
  std::atomic<uint64_t> in_flight;
  // The number of the chunk that the reader took back because the owner let it lie. Reader stores, owner loads.
  std::atomic<uint32_t> revoked;
  // Of the owner; 0 = none. Stored by who claimed the lane's bit, cleared by the reader before the bit.
  std::atomic<uint32_t> tid;
  std::atomic<uint32_t> number;     // of the chunk taken last (ChunkDescriptor.number). Owner stores, reader loads.
  std::atomic<uint32_t> abandoned;  // the owner has another one
  // 1 while a chunk is being taken: a signal handler must not begin the same, and Stop waits for it. Owner stores, Stop
  // loads.
  std::atomic<uint32_t> taking;
  // The owner's alone.
  uint8_t* data;  // its chunk; nullptr = none
  ChunkDescriptor* chunk;
  uint32_t position;    // where the next record begins
  uint32_t serial;      // ChunkDescriptor.owner_serial
  uint32_t generation;  // of the ring that the chunk belongs to
  bool from_reserve;    // the chunk is one of the last: only frees may fill it
};
static_assert(sizeof(Lane) == 64);

struct Pool {
  Lane lanes[kMaxLanes];
  alignas(64) std::atomic<uint32_t> lane_limit;  // lanes at and above were never taken
  std::atomic<uint32_t> last_serial;
  alignas(64) std::atomic<int32_t> free_chunks;  // never more than bits are set in free_bits
  std::atomic<uint32_t> congested;    // 1 from a wait in vain until the reader made room: meanwhile nobody waits
  std::atomic<uint32_t> high_chunks;  // most that were taken at a time, as the reader saw it
  std::atomic<uint32_t> lanes_short;  // the same for lanes
  // Chunks below have their blocks, so that a store to them cannot fail, or are being given them; none beyond is in
  // free_bits, or was ever handed out (growth.cc).
  std::atomic<uint32_t> present_chunks;
  std::atomic<uint32_t> allowed_chunks;  // as far as threads that find none may go on by themselves
  alignas(64) std::atomic<uint64_t> free_bits[kMaxChunks / 64];
  alignas(64) std::atomic<uint64_t> taken_lanes[kMaxLanes / 64];  // claimed by threads, given back by the reader
};

// Written by Start while the ring is inactive; read by others only after they saw its generation.
struct State {
  Pool* pool;
  RingHeader* header;  // its page stays mapped for good: somebody may be about to count a loss in it
  ChunkDescriptor* chunks;
  uint8_t* data;
  size_t mapped_bytes;
  uint32_t chunk_count;   // at most: for so many there is address space
  uint32_t first_chunks;  // it does not shrink below
  uint32_t pid;
  uint32_t generation;  // of the last Start; survives a fork
  uint64_t wait_ns;     // Config
  bool barrier;         // the kernel gives us membarrier
  // Of the file; path is "" where it is anonymous memory.
  bool populates;  // the kernel allocates blocks through the mapping
  uint64_t device, inode;
  char path[512];
  char directory[512];  // where rings lie as a rule; "" where this one was not to have a file
};
extern State g_state;
extern std::atomic<Hot*> g_hot;  // never nullptr
Hot* InactiveHot();              // what it is before the first Start

// A reader asleep is woken by a change of this word (a futex).
extern std::atomic<uint32_t> g_wake;

template <typename T>
inline std::atomic_ref<T> Atomic(T& word) {
  return std::atomic_ref<T>(word);
}

// The calling thread's lane; nullptr before its first record.
extern constinit thread_local Lane* t_lane __attribute__((tls_model("initial-exec")));

// Finds the calling thread's lane, or takes one. nullptr: all are taken.
Lane* TakeLane();

// The last free ones, which only frees may take.
inline int32_t ReservedChunks(const Pool& pool) {
  return static_cast<int32_t>(pool.present_chunks.load(std::memory_order_relaxed) / 10);
}

// Less than half of what there is is free: the writer thread is to come.
inline bool IsShort(const Pool& pool) {
  const auto present = static_cast<int32_t>(pool.present_chunks.load(std::memory_order_relaxed));
  return pool.free_chunks.load(std::memory_order_relaxed) < present / 2;
}

// Gives `lane` an empty chunk of ring `generation`, waiting at most kMaxWaitNs. False: none to be had.
bool TakeChunk(Lane* lane, uint32_t generation, bool is_free);

// Gives chunks their blocks and hands them out, `step` more if they are allowed. Lock-free. From a hook with kHookStep:
// some 20 us, once in 600 events of a ring that is short. False: no room.
bool Grow(uint32_t step);
inline constexpr uint32_t kHookStep = 4;
// The opposite: takes free chunks at the end out and their blocks back, down to `target`. The writer thread's.
void Shrink(uint32_t target);

// Asymmetric fence: after it, every other thread's earlier stores are visible here and its later loads happen later.
// False: not supported, and then only time helps (docs/ring.md).
bool HeavyBarrier();

}  // namespace gpumemshim::ring

#endif  // GPUMEM_SHIM_RING_STATE_H_
