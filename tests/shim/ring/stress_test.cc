// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Eight threads against a reader that cannot keep up: every event is either read or counted as dropped.

#include <string.h>

#include <atomic>
#include <random>
#include <thread>

#include "ring_fixture.h"

namespace gpumemshim::ring {
namespace {

constexpr int kThreads = 8;
constexpr uint64_t kEventsEach = 40'000;

struct Sent {
  uint64_t allocs = 0, frees = 0, definitions = 0;
  uint64_t refused_allocs = 0, refused_frees = 0, refused_definitions = 0;
};

// A thread's events carry its number and a count, so that order and wholeness can be checked.
void Send(uint64_t thread, Sent* sent) {
  std::mt19937_64 random(thread);
  std::vector<RawFrame> frames(40, RawFrame{thread, 1, 0});
  for (uint64_t i = 1; i <= kEventsEach; i++) {
    if (random() % 50 == 0) {
      sent->definitions++;
      if (!RecordStack(random(), frames.data(), static_cast<uint32_t>(random() % 40))) sent->refused_definitions++;
    }
    Event event{};
    bool is_free = random() % 2 == 0;
    event.kind = is_free ? EventKind::kFree : EventKind::kAlloc;
    event.address = thread;
    event.size = i;
    event.handle = thread * 1'000'003 + i;
    bool taken = Record(event);
    (is_free ? sent->frees : sent->allocs)++;
    if (!taken) (is_free ? sent->refused_frees : sent->refused_allocs)++;
  }
}

class StressTest : public RingTest {
 protected:
  void Run(uint64_t ring_bytes, int reader_sleep_us, uint32_t first_chunks = Config().first_chunks) {
    StartRing(ring_bytes, first_chunks);
    Sent sent[kThreads];
    std::vector<std::thread> threads;
    std::atomic<int> running{kThreads};
    for (int t = 0; t < kThreads; t++) {
      threads.emplace_back([&, t] {
        Send(static_cast<uint64_t>(t) + 1, &sent[t]);
        running--;
      });
    }
    std::vector<Event> got;
    while (running > 0) {
      Drain(&got);
      std::this_thread::sleep_for(std::chrono::microseconds(reader_sleep_us));
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<Event> rest = StopAndDrain();
    got.insert(got.end(), rest.begin(), rest.end());
    Check(got, sent);
  }

  void Check(const std::vector<Event>& got, const Sent (&sent)[kThreads]) {
    Sent all;
    for (const Sent& s : sent) {
      all.allocs += s.allocs, all.frees += s.frees, all.definitions += s.definitions;
      all.refused_allocs += s.refused_allocs, all.refused_frees += s.refused_frees;
      all.refused_definitions += s.refused_definitions;
    }
    Stats stats = GetStats();
    EXPECT_EQ(stats.dropped_allocs, all.refused_allocs);
    EXPECT_EQ(stats.dropped_frees, all.refused_frees);
    EXPECT_EQ(stats.dropped_definitions, all.refused_definitions);
    uint64_t allocs = 0, frees = 0, last[kThreads + 1] = {}, time_ns = 0;
    for (const Event& event : got) {
      (event.kind == EventKind::kFree ? frees : allocs)++;
      ASSERT_EQ(event.handle, event.address * 1'000'003 + event.size);
      ASSERT_GT(event.size, last[event.address]) << "a thread's own order";
      ASSERT_GE(event.time_ns, time_ns) << "order between threads";
      last[event.address] = event.size;
      time_ns = event.time_ns;
    }
    EXPECT_EQ(allocs + stats.dropped_allocs, all.allocs);
    EXPECT_EQ(frees + stats.dropped_frees, all.frees);
    dropped_ = stats.dropped_allocs + stats.dropped_frees;
    // Allocations go first: about as many of both were sent, so what chance makes of it is small.
    EXPECT_GE(stats.dropped_allocs + stats.dropped_allocs / 100, stats.dropped_frees);
  }

  uint64_t dropped_ = 0;
};

TEST_F(StressTest, SlowReaderSmallRing) {
  Run(512 << 10, 20'000);
  EXPECT_GT(dropped_, 0u) << "the test means to overrun the ring";
}

TEST_F(StressTest, SmallestRing) { Run(kMinSizeBytes, 2'000); }

TEST_F(StressTest, RingThatHoldsItAll) {
  Run(uint64_t{64} << 20, 5'000, UINT32_MAX);  // all of it from the start: no disk is fast enough to grow it in a burst
  EXPECT_EQ(dropped_, 0u);
}

}  // namespace
}  // namespace gpumemshim::ring
