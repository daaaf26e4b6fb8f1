// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/python/existing.h"

#include <time.h>

#include <atomic>

#include "shim/base/event.h"
#include "shim/base/symbol_lookup.h"
#include "shim/python/api.h"
#include "shim/python/inject.h"
#include "shim/ring/ring.h"

namespace gpumemshim::python {
namespace {

constexpr uint64_t kThingsPerLook = 512;  // at how full the ring is
constexpr uint32_t kTriesPerSecond = 1u << 20;
constexpr int kMostWaits = 200;  // of a millisecond, for the writer to make room

std::atomic<bool> g_asked;
std::atomic<bool> g_told;
std::atomic<int32_t> g_result;
std::atomic<uint32_t> g_tries;
std::atomic<uint64_t> g_things, g_blocks, g_bytes;
int g_waits;

void Begin() {
  g_things.store(0, std::memory_order_relaxed);
  g_blocks.store(0, std::memory_order_relaxed);
  g_bytes.store(0, std::memory_order_relaxed);
  g_told.store(false, std::memory_order_relaxed);
  g_asked.store(true, std::memory_order_release);
}

// The list may be longer than the ring, and it comes faster than the writer takes it.
void WaitForRoom() {
  for (; g_waits < kMostWaits; ++g_waits) {
    const ring::Stats stats = ring::GetStats();
    if (stats.used_bytes < stats.present_bytes / 2) return;
    ring::Wake();
    const timespec millisecond{0, 1'000'000};
    nanosleep(&millisecond, nullptr);
  }
}

}  // namespace

void RequestExisting() {
  g_waits = 0;
  Begin();
  if (!IsEnabled()) return EndExisting(ExistingResult::kNotAsked);
  g_tries.store(0, std::memory_order_relaxed);
  // Of its allocator, whatever the program is otherwise.
  char path[4096];
  if (!FindLoadedPath("libc10_cuda.so", path, sizeof path)) return EndExisting(ExistingResult::kNoTorch);
  RequestLook();
}

void RetryExisting(bool once_a_second) {
  if (!IsExistingAsked()) return;
  if (!once_a_second) {
    const uint32_t tries = g_tries.fetch_add(1, std::memory_order_relaxed) + 1;
    if ((tries & (tries - 1)) == 0) RequestLook();
    return;
  }
  RequestLook();
  if (Load() == nullptr && g_tries.fetch_add(kTriesPerSecond, std::memory_order_relaxed) > 3 * kTriesPerSecond)
    EndExisting(ExistingResult::kNoTorch);
}

Existing GetExisting() {
  Existing existing;
  existing.is_asked = IsExistingAsked();
  existing.is_told = g_told.load(std::memory_order_acquire);
  existing.result = static_cast<ExistingResult>(g_result.load(std::memory_order_relaxed));
  existing.blocks = g_blocks.load(std::memory_order_relaxed);
  existing.allocated_bytes = g_bytes.load(std::memory_order_relaxed);
  return existing;
}

bool IsExistingAsked() { return g_asked.load(std::memory_order_acquire); }

void TellExisting(const ExistingThing& thing) {
  if (g_things.fetch_add(1, std::memory_order_relaxed) % kThingsPerLook == 0) WaitForRoom();
  Event event{};
  event.kind = EventKind::kExisting;
  event.device = static_cast<int16_t>(thing.device);
  event.address = thing.address;
  event.size = thing.size;
  event.requested_size = thing.requested;
  event.stream = thing.stream;
  event.handle = thing.kind;
  ring::Record(event);
  if (thing.kind != kExistingBlock) return;
  g_blocks.fetch_add(1, std::memory_order_relaxed);
  g_bytes.fetch_add(thing.size, std::memory_order_relaxed);
}

void EndExisting(ExistingResult result) {
  if (!g_asked.exchange(false, std::memory_order_acq_rel)) return;
  Event event{};
  event.kind = EventKind::kExistingEnd;
  event.device = kNoDevice;
  event.handle = g_things.load(std::memory_order_relaxed);
  event.result = static_cast<int32_t>(result);
  ring::Record(event);
  g_result.store(static_cast<int32_t>(result), std::memory_order_relaxed);
  g_told.store(true, std::memory_order_release);
}

}  // namespace gpumemshim::python
