// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Config.wait_ns: callers wait for room instead of losing events, and whatever could keep them waiting for good does
// not. Tests of what ends a wait would hang without it.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "ring_fixture.h"
#include "shim/ring/state.h"

namespace gpumemshim::ring {
namespace {

constexpr uint64_t kForEver = uint64_t{3600} * 1'000'000'000;

class WaitTest : public RingTest {
 protected:
  void StartWaiting(uint64_t wait_ns) {
    Config config;
    config.size_bytes = kMinSizeBytes;
    config.wait_ns = wait_ns;
    ASSERT_TRUE(Start(config));
    ASSERT_TRUE(reader_.Attach());
  }

  // Records until one is refused.
  static uint64_t Fill() {
    uint64_t count = 0;
    for (Event event = MakeEvent(EventKind::kAlloc, 1); Record(event); event.time_ns = 0) count++;
    return count;
  }

  // The ring is full, and somebody is at taking a chunk: that thread waits.
  static bool Waits() {
    const Pool& pool = *g_state.pool;
    if (pool.present_chunks.load() < g_state.chunk_count || pool.free_chunks.load() > ReservedChunks(pool))
      return false;
    for (uint32_t i = 0; i < pool.lane_limit.load(); i++) {
      if (pool.lanes[i].taking.load() != 0) return true;
    }
    return false;
  }

  // A thread that records until it is refused.
  std::thread Recorder() {
    return std::thread([this] {
      for (Event event = MakeEvent(EventKind::kAlloc, 1); Record(event); event.time_ns = 0) recorded_++;
    });
  }

  std::atomic<uint64_t> recorded_{0};
};

TEST_F(WaitTest, NothingIsLostHoweverSlowTheReaderIs) {
  StartWaiting(kForEver);
  constexpr uint64_t kEach = 30'000;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 3; t++) {
    threads.emplace_back([t] {
      for (uint64_t i = 0; i < kEach; i++) {
        Event event = MakeEvent(i % 2 == 0 ? EventKind::kAlloc : EventKind::kFree, t << 32 | i);
        ASSERT_TRUE(Record(event));
      }
    });
  }
  std::vector<Event> got;
  while (got.size() < 3 * kEach) {
    Drain(&got);
    usleep(300);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(GetStats().dropped_allocs + GetStats().dropped_frees, 0u);
}

TEST_F(WaitTest, PastTheBoundItIsCountedAndNobodyWaitsAgain) {
  StartWaiting(20'000'000);
  Fill();
  EXPECT_EQ(GetStats().dropped_allocs, 1u);
  for (uint64_t i = 2; i < 10'000; i++) {  // each for 20 ms would take minutes
    Event event = MakeEvent(EventKind::kAlloc, i);
    ASSERT_FALSE(Record(event));
    ASSERT_EQ(GetStats().dropped_allocs, i);
  }
  std::vector<Event> got;
  while (got.empty()) Drain(&got);
  EXPECT_GT(Fill(), 0u);
}

TEST_F(WaitTest, StopEndsIt) {
  StartWaiting(kForEver);
  std::thread recorder = Recorder();
  while (!Waits()) usleep(1000);
  Stop(60'000);
  recorder.join();
  std::vector<Event> got;
  Drain(&got, true);
  EXPECT_EQ(got.size(), recorded_.load());
}

TEST_F(WaitTest, TheThreadThatMakesRoomNeverWaits) {
  StartWaiting(kForEver);
  std::thread([] {
    BecomeWriter();
    Fill();
  }).join();
  EXPECT_EQ(GetStats().dropped_allocs, 1u);
}

std::atomic<int> g_signals;

TEST_F(WaitTest, ASignalHandlerThatRecordsDoesNot) {
  StartWaiting(kForEver);
  g_signals = 0;
  struct sigaction action = {}, before;
  action.sa_handler = [](int) {
    Event event{};
    event.kind = EventKind::kFree;
    g_signals = Record(event) ? 2 : 1;
  };
  sigaction(SIGUSR1, &action, &before);
  std::thread recorder = Recorder();
  while (!Waits()) usleep(1000);
  pthread_kill(recorder.native_handle(), SIGUSR1);
  while (g_signals == 0) usleep(1000);
  EXPECT_EQ(g_signals, 1) << "dropped: the thread is at a record already";
  EXPECT_EQ(GetStats().dropped_frees, 1u);
  Stop(60'000);
  recorder.join();
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_F(WaitTest, AForkMeanwhileLeavesAChildThatRecordsNothing) {
  StartWaiting(kForEver);
  std::thread recorder = Recorder();
  while (!Waits()) usleep(1000);
  const pid_t child = fork();
  if (child == 0) {
    Event event{};
    _exit(Record(event) ? 1 : 0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  Stop(60'000);
  recorder.join();
}

}  // namespace
}  // namespace gpumemshim::ring
