// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the victim says of itself, in a shared file that outlives it: each thread's calls, in its order, and how many of
// them have returned. A call is entered before it is made (begun) and completed after it returned (acked), so between
// the two lie the events of at most one call, of which nobody knows whether they were recorded.
//
// Thread-safety: a ThreadTruth has one writing thread; others read the two counts. Plain data in a shared mapping.
//
//   truth.Begin(kind, layer, address, size);
//   ... the call ...
//   truth.Acknowledge(address);

#ifndef GPUMEM_TESTS_TORTURE_TRUTH_H_
#define GPUMEM_TESTS_TORTURE_TRUTH_H_

#include <atomic>
#include <cstdint>

namespace torture {

inline constexpr int kThreads = 8;

// Numbers of trace.proto, which the checker holds against the trace.
enum Kind : uint8_t {
  kAlloc = 1,
  kFree = 2,
  kFreeFailed = 4,
  kAddressReserve = 5,
  kAddressFree = 6,
  kPhysicalCreate = 7,
  kPhysicalRelease = 8,
  kMap = 10,
  kUnmap = 11,
  kHostRegister = 14,
  kHostUnregister = 15,
  kPoolCreate = 16,
  kPoolDestroy = 17,
};
enum Layer : uint8_t { kDriver = 1, kTorch = 3 };

// One event as the trace must have it. `key` is its address, or its handle where it has no address.
struct Entry {
  uint64_t key;
  uint64_t what;  // kind << 56 | layer << 48 | size; sizes stay below 2^48

  uint8_t kind() const { return static_cast<uint8_t>(what >> 56); }
  uint8_t layer() const { return static_cast<uint8_t>(what >> 48); }
  uint64_t size() const { return what & ((uint64_t{1} << 48) - 1); }
};

// Addresses that were never given out: frees of them fail.
inline constexpr uint64_t kBogusAddresses = 0x1000;
inline bool IsBogus(uint64_t key) { return key >= kBogusAddresses && key < 2 * kBogusAddresses; }

struct alignas(64) ThreadTruth {
  std::atomic<uint64_t> begun, acked;
  uint64_t entries_offset;  // in the file
  uint32_t tid;

  void Begin(Entry* entries, Kind kind, Layer layer, uint64_t key, uint64_t size) {
    const uint64_t n = begun.load(std::memory_order_relaxed);
    entries[n] = {key, uint64_t{kind} << 56 | uint64_t{layer} << 48 | size};
    begun.store(n + 1, std::memory_order_release);
  }
  // All that was begun has returned; `key` is what the last call gave, 0 where it was known before.
  void Acknowledge(Entry* entries, uint64_t key) {
    const uint64_t n = begun.load(std::memory_order_relaxed);
    if (key != 0) entries[n - 1].key = key;
    acked.store(n, std::memory_order_release);
  }
};

struct Truth {
  std::atomic<uint32_t> ready;  // the victim's threads run
  uint64_t capacity;            // entries of each thread; a thread that has filled its own stops
  ThreadTruth threads[kThreads];

  uint64_t Acknowledged() const {
    uint64_t sum = 0;
    for (const ThreadTruth& thread : threads) sum += thread.acked.load(std::memory_order_acquire);
    return sum;
  }
};

}  // namespace torture

#endif  // GPUMEM_TESTS_TORTURE_TRUTH_H_
