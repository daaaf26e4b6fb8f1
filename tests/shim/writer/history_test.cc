// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Threads that pass memory and stacks to each other, through the real writer thread: the file's order must be a
// possible history, and a stack that one thread defined and others use must stand before its first use (the decoder
// checks that).

#include <sched.h>

#include <atomic>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "writer_fixture.h"

namespace gpumemshim::writer {
namespace {

constexpr uint64_t kAddresses = 9;
constexpr uint64_t kStacks = 3000;

// Slots of a toy device. 0 = free, 1 = in transition, 2 = live.
std::atomic<int> g_slots[kAddresses];
// Stacks that some thread has defined, for the whole process.
std::atomic<bool> g_defined[kStacks];

uint64_t UseStack(uint64_t hash) {
  if (g_defined[hash].load(std::memory_order_acquire)) return hash;
  ring::RawFrame frames[] = {{0x1000 + hash, 0, 0}, {1 + hash % 100, 7, ring::kFramePython}, {0x99, 0, 0}};
  ring::RawCode code = {1 + hash % 100, "f.py", 4, "f", 1, "", 0, 1, 11};
  if (!ring::RecordCode(code) || !ring::RecordStack(hash, frames, 3)) return 0;
  g_defined[hash].store(true, std::memory_order_release);
  return hash;
}

void Work(uint64_t seed, int steps) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < steps; i++) {
    uint64_t slot = random() % kAddresses;
    Event e{};
    e.layer = Layer::kDriver;
    e.address = (slot + 1) << 21;
    e.stack = UseStack(1 + random() % (kStacks - 1));
    int expected = 0;
    if (g_slots[slot].compare_exchange_strong(expected, 1)) {
      e.kind = EventKind::kAlloc;
      while (!ring::Record(e)) sched_yield();
      g_slots[slot].store(2);
      continue;
    }
    expected = 2;
    if (g_slots[slot].compare_exchange_strong(expected, 1)) {
      e.kind = EventKind::kFree;
      while (!ring::Record(e)) sched_yield();
      g_slots[slot].store(0);
    }
  }
}

TEST_F(WriterTest, TheFileIsAPossibleHistory) {
  Config config = MakeConfig();
  config.interval_ms = 1;  // many passes, so that many fall into the middle of something
  StartBoth(config, 1 << 20);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 6; t++) threads.emplace_back([t] { Work(t, 40'000); });
  for (std::thread& thread : threads) thread.join();
  Summary summary = Stop(20'000);
  EXPECT_TRUE(summary.complete);
  Decoded d = DecodeFile(path());
  ASSERT_EQ(d.error, "");
  EXPECT_EQ(d.rows.size(), summary.events);
  EXPECT_GT(d.rows.size(), 20'000u);
  std::set<uint64_t> live;
  for (const Row& row : d.rows) {
    if (row.kind == gpumem::trace::ALLOC) {
      ASSERT_TRUE(live.insert(row.address).second);
    } else {
      ASSERT_EQ(live.erase(row.address), 1u);
    }
  }
  for (const auto& [hash, stack] : d.stack_of_key) {
    ASSERT_EQ(d.Frames(stack).size(), 3u);
    ASSERT_EQ(d.Frames(stack)[0].pc(), 0x1000 + hash);
  }
}

}  // namespace
}  // namespace gpumemshim::writer
