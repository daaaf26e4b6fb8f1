# SPDX-License-Identifier: Apache-2.0
# Mistakes that the model must find. Each takes one piece of the ring's source for another; where that piece is no longer there, configuring
# fails, so the list cannot go stale. SCENARIO is the one that shows it.
#
# Not among them, since the watermark alone is enough for times that the ring takes itself: the order of events, stacks and code objects in
# BeginPass, and ExtendClosed. Both hold for times that a caller sets and behind a stalled thread.
#
#   gpumem_ring_mutant(NAME SCENARIO FILE FROM TO)

gpumem_ring_mutant(committed_relaxed "publish" ring.cc
  "Atomic(lane->chunk->committed).store(lane->position, std::memory_order_release);"
  "Atomic(lane->chunk->committed).store(lane->position, std::memory_order_relaxed);")
gpumem_ring_mutant(no_in_flight "publish" ring.cc
  "lane->in_flight.store(hot->reader_time_ns.load(std::memory_order_relaxed), std::memory_order_relaxed);"
  "lane->in_flight.store(0, std::memory_order_relaxed);")
gpumem_ring_mutant(never_revoked "take back" ring.cc
  "lane->revoked.load(std::memory_order_relaxed) != lane->number.load(std::memory_order_relaxed);"
  "true;")
gpumem_ring_mutant(no_barrier "publish late" reader.cc
  "barrier_ = HeavyBarrier();"
  "barrier_ = true;")
gpumem_ring_mutant(committed_not_acquired "publish" reader.cc
  "uint32_t committed = Atomic(chunk.committed).load(std::memory_order_acquire);\n      if (limit"
  "uint32_t committed = Atomic(chunk.committed).load(std::memory_order_relaxed);\n      if (limit")
gpumem_ring_mutant(newer_slot_overwritten "publish again" reader.cc
  "chunk.read[1].packet_sequence ? 1 : 0;"
  "chunk.read[1].packet_sequence ? 0 : 1;")
gpumem_ring_mutant(freed_last "publish" reader.cc
  "Atomic(chunk.state).store(kChunkFree, std::memory_order_relaxed);\n  Atomic(chunk.read[0].packet_sequence).store(0, std::memory_order_release);\n  Atomic(chunk.read[1].packet_sequence).store(0, std::memory_order_release);"
  "Atomic(chunk.read[0].packet_sequence).store(0, std::memory_order_release);\n  Atomic(chunk.read[1].packet_sequence).store(0, std::memory_order_release);\n  Atomic(chunk.state).store(kChunkFree, std::memory_order_relaxed);")
gpumem_ring_mutant(released_relaxed "publish" reader.cc
  "pool->free_bits[index / 64].fetch_or(uint64_t{1} << (index % 64), std::memory_order_release);"
  "pool->free_bits[index / 64].fetch_or(uint64_t{1} << (index % 64), std::memory_order_relaxed);")
gpumem_ring_mutant(count_not_exchanged "publish" chunks.cc
  "!pool->free_chunks.compare_exchange_weak(left, left - 1, std::memory_order_acquire)"
  "(pool->free_chunks.store(left - 1, std::memory_order_relaxed), false)")
gpumem_ring_mutant(harvest_without_looking "take back" reader.cc
  "track.harvest = lane.in_flight.load(std::memory_order_acquire) == 0;"
  "track.harvest = true;")
gpumem_ring_mutant(stop_does_not_wait "stop" lifetime.cc
  "while (Busy() && MonotonicNs() < deadline_ns) sched_yield();"
  "")
gpumem_ring_mutant(handed_out_without_blocks "grow" growth.cc
  "  if (AllocateBlocks(OffsetOf(from), size_t{to - from} * kChunkBytes)) {\n    HandOut(pool, from, to);\n"
  "  HandOut(pool, from, to);\n  if (AllocateBlocks(OffsetOf(from), size_t{to - from} * kChunkBytes)) {\n")
gpumem_ring_mutant(two_grow_the_same "grow" growth.cc
  "while (!pool->present_chunks.compare_exchange_weak(from, to, std::memory_order_acquire));"
  "while (pool->present_chunks.store(to, std::memory_order_relaxed), false);")
gpumem_ring_mutant(blocks_freed_last "shrink" growth.cc
  "  FreeBlocks(OffsetOf(to), bytes);\n  uint32_t last = present;\n  if (pool->present_chunks.compare_exchange_strong(last, to, std::memory_order_release)) return;"
  "  uint32_t last = present;\n  if (pool->present_chunks.compare_exchange_strong(last, to, std::memory_order_release)) return FreeBlocks(OffsetOf(to), bytes);")
gpumem_ring_mutant(count_after_bit "shrink" growth.cc
  "  if ((pool->free_bits[index / 64].fetch_and(~bit, std::memory_order_acquire) & bit) != 0) return true;"
  "  pool->free_bits[index / 64].fetch_and(~bit, std::memory_order_acquire); return true;")
