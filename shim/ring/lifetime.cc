// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Start, Stop and what surrounds them: one at a time, called by control.

#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/base/clock.h"
#include "shim/ring/mapping.h"
#include "shim/ring/ring.h"
#include "shim/ring/shape.h"
#include "shim/ring/state.h"
#include "shim/ring/trace_link.h"

namespace gpumemshim::ring {
namespace {

void* Pages(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// The page that a forked child finds empty. Made once for the process and all its descendants.
bool MakeHot() {
  if (g_hot.load(std::memory_order_relaxed) != InactiveHot()) return true;
  void* page = Pages(kPageBytes);
  if (page == nullptr) return false;
  madvise(page, kPageBytes, MADV_WIPEONFORK);  // an older kernel relies on ForgetInChild
  g_hot.store(static_cast<Hot*>(page), std::memory_order_release);
  return true;
}

bool MakePool() {
  if (g_state.pool != nullptr && g_state.pid == static_cast<uint32_t>(getpid())) return true;
  g_state.pool = static_cast<Pool*>(Pages(sizeof(Pool)));
  return g_state.pool != nullptr;
}

void FillHeader(RingHeader* header, const Config& config, const Shape& s, const Mapping& mapping) {
  header->layout_version = kLayoutVersion;
  header->pid = static_cast<uint32_t>(getpid());
  header->process_start_ticks = ProcessStartTicks();
  header->size_bytes = mapping.claimed_bytes;
  header->chunk_bytes = kChunkBytes;
  header->chunk_count = s.ChunksIn(mapping.claimed_bytes);
  header->reserved_chunks = s.chunk_count / 10;
  header->api_count = config.api_name != nullptr ? config.api_count : 0;
  header->descriptors_offset = kPageBytes;
  header->api_names_offset = s.names_offset;
  header->chunks_offset = s.chunks_offset;
  header->anchor_monotonic_ns = MonotonicNs();
  header->anchor_realtime_ns = ClockNs(CLOCK_REALTIME);
  header->parent_pid = static_cast<uint32_t>(getppid());
  header->locked = mapping.locked ? 1 : 0;
  header->id = mapping.id;
  if (config.program != nullptr) {
    memcpy(header->program, config.program, strnlen(config.program, kProgramNameBytes - 1));
  }
  char* names = reinterpret_cast<char*>(header) + s.names_offset;
  for (uint32_t i = 0; i < header->api_count; i++) {
    const char* name = NameOf(config, static_cast<uint16_t>(i));
    size_t size = strlen(name) + 1;
    memcpy(names, name, size);
    names += size;
  }
  Atomic(header->magic).store(kMagic, std::memory_order_release);
}

void FillPool(Pool* pool, uint32_t chunk_count, uint32_t allowed) {
  for (uint32_t i = 0; i < kMaxChunks / 64; i++) {
    uint32_t first = i * 64;
    uint64_t bits = first + 64 <= chunk_count ? ~uint64_t{0}
                    : first < chunk_count     ? (uint64_t{1} << (chunk_count - first)) - 1
                                              : 0;
    if (bits != pool->free_bits[i].load(std::memory_order_relaxed))
      pool->free_bits[i].store(bits, std::memory_order_relaxed);
  }
  pool->congested.store(0, std::memory_order_relaxed);
  pool->present_chunks.store(chunk_count, std::memory_order_relaxed);
  pool->allowed_chunks.store(allowed, std::memory_order_relaxed);
  pool->free_chunks.store(static_cast<int32_t>(chunk_count), std::memory_order_relaxed);
}

void FillState(const Mapping& mapping, const Shape& shape) {
  auto* memory = static_cast<uint8_t*>(mapping.memory);
  const uint32_t present = shape.ChunksIn(mapping.present_bytes);
  g_state.pid = static_cast<uint32_t>(getpid());
  g_state.header = reinterpret_cast<RingHeader*>(memory);
  g_state.mapped_bytes = mapping.bytes;
  g_state.chunk_count = shape.chunk_count;
  g_state.first_chunks = present;
  g_state.chunks = reinterpret_cast<ChunkDescriptor*>(memory + kPageBytes);
  g_state.data = memory + shape.chunks_offset;
  g_state.barrier = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  g_state.populates = mapping.populates;
  g_state.device = mapping.device;
  g_state.inode = mapping.inode;
  static_assert(sizeof(g_state.path) == sizeof(mapping.path));
  memcpy(g_state.path, mapping.path, sizeof(mapping.path));
  FillPool(g_state.pool, present, shape.ChunksIn(mapping.claimed_bytes));
}

void Unmap() {
  if (g_hot.load(std::memory_order_relaxed)->mapped.exchange(0, std::memory_order_acq_rel) == 0) return;
  // The header's page stays: somebody who was refused may be about to count that.
  munmap(reinterpret_cast<uint8_t*>(g_state.header) + kPageBytes, g_state.mapped_bytes - kPageBytes);
}

bool Busy() {
  const Pool* pool = g_state.pool;
  uint32_t limit = pool->lane_limit.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < limit; i++) {
    if (pool->lanes[i].in_flight.load(std::memory_order_acquire) != 0) return true;
    if (pool->lanes[i].taking.load(std::memory_order_acquire) != 0) return true;
  }
  return false;
}

}  // namespace

bool Start(const Config& config) {
  if (Active()) return true;
  int saved = errno;
  bool started = false;
  if (MakeHot()) {
    Unmap();
    size_t bytes = config.size_bytes < kMinSizeBytes   ? kMinSizeBytes
                   : config.size_bytes > kMaxSizeBytes ? kMaxSizeBytes
                                                       : config.size_bytes;
    bytes &= ~(kPageBytes - 1);
    const Mapping mapping = MakePool() ? MapRing(config, bytes) : Mapping();
    if (mapping.memory != nullptr) {
      Hot* hot = g_hot.load(std::memory_order_relaxed);
      const Shape shape = ShapeOf(config, mapping.bytes);
      FillState(mapping, shape);
      snprintf(g_state.directory, sizeof(g_state.directory), "%s", config.directory != nullptr ? config.directory : "");
      g_state.wait_ns = config.wait_ns;
      WantTrace(g_state.header, config.trace_path);
      FillHeader(g_state.header, config, shape, mapping);
      hot->reader_time_ns.store(MonotonicNs(), std::memory_order_relaxed);
      hot->mapped.store(1, std::memory_order_release);
      hot->generation.store(++g_state.generation, std::memory_order_release);
      started = true;
    }
  }
  errno = saved;
  return started;
}

void Stop(uint32_t timeout_ms) {
  Hot* hot = g_hot.load(std::memory_order_relaxed);
  if (hot->mapped.load(std::memory_order_acquire) == 0) return;  // not Active(): it may be paused
  int saved = errno;
  hot->generation.store(0, std::memory_order_seq_cst);
  uint64_t deadline_ns = MonotonicNs() + uint64_t{timeout_ms} * 1'000'000;
  if (!HeavyBarrier()) {
    timespec pause = {0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
  while (Busy() && MonotonicNs() < deadline_ns) sched_yield();
  errno = saved;
}

void Pause() { g_hot.load(std::memory_order_relaxed)->generation.store(0, std::memory_order_seq_cst); }

bool Resume() {
  Hot* hot = g_hot.load(std::memory_order_relaxed);
  if (Active()) return true;
  if (hot->mapped.load(std::memory_order_acquire) == 0 || g_state.pid != static_cast<uint32_t>(getpid())) return false;
  // The number of before: threads find their chunks again.
  hot->generation.store(g_state.generation, std::memory_order_release);
  return true;
}

void Unlink() {
  int saved = errno;
  if (g_state.pid == static_cast<uint32_t>(getpid()) && g_state.path[0] != '\0') {
    // A process that is another user by now may not remove it, but can leave it empty.
    if (unlink(g_state.path) != 0) {
      Atomic(g_state.header->magic).store(0, std::memory_order_relaxed);  // of no use to anybody
      madvise(reinterpret_cast<uint8_t*>(g_state.header) + kPageBytes, g_state.mapped_bytes - kPageBytes, MADV_REMOVE);
    }
    g_state.path[0] = '\0';
  }
  if (!Active() && !(g_state.pool != nullptr && Busy())) Unmap();
  errno = saved;
}

void ForgetInChild() {
  Hot* hot = g_hot.load(std::memory_order_relaxed);
  hot->generation.store(0, std::memory_order_relaxed);
  hot->mapped.store(0, std::memory_order_relaxed);
  g_state.path[0] = '\0';
}

Stats GetStats() {
  Stats stats = {};
  if (g_hot.load(std::memory_order_relaxed)->mapped.load(std::memory_order_acquire) == 0) return stats;
  RingHeader* header = g_state.header;
  stats.dropped_allocs = Atomic(header->dropped_allocs).load(std::memory_order_relaxed);
  stats.dropped_frees = Atomic(header->dropped_frees).load(std::memory_order_relaxed);
  stats.dropped_definitions = Atomic(header->dropped_definitions).load(std::memory_order_relaxed);
  stats.truncated_stacks = Atomic(header->truncated_stacks).load(std::memory_order_relaxed);
  stats.stalled_threads = Atomic(header->stalled_threads).load(std::memory_order_relaxed);
  stats.high_bytes = uint64_t{g_state.pool->high_chunks.load(std::memory_order_relaxed)} * kChunkBytes;
  const int32_t free_chunks = g_state.pool->free_chunks.load(std::memory_order_relaxed);
  const uint32_t present = g_state.pool->present_chunks.load(std::memory_order_relaxed);
  stats.used_bytes = (present - static_cast<uint32_t>(free_chunks)) * uint64_t{kChunkBytes};
  stats.present_bytes = present * uint64_t{kChunkBytes};
  stats.size_bytes = g_state.mapped_bytes;
  return stats;
}

const char* Path() {
  return g_hot.load(std::memory_order_relaxed)->mapped.load(std::memory_order_acquire) != 0 ? g_state.path : "";
}

}  // namespace gpumemshim::ring
