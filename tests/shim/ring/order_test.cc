// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Threads pass memory to each other: what one allocates another frees, and an address is taken again at once. The order
// in which the ring hands out the events must be a history that could have happened.

#include <sched.h>

#include <atomic>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "ring_fixture.h"
#include "shim/ring/state.h"

namespace gpumemshim::ring {
namespace {

// A toy allocator with few addresses, so that they are reused all the time. A free is recorded before it, an allocation
// after it.
class Heap {
 public:
  explicit Heap(uint64_t addresses) {
    for (uint64_t a = 1; a <= addresses; a++) free_.push_back(a);
  }

  uint64_t Allocate() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return 0;
    uint64_t address = free_.back();
    free_.pop_back();
    return address;
  }
  void Free(uint64_t address) {
    std::lock_guard lock(mutex_);
    free_.push_back(address);
  }

  void Hand(uint64_t address) {
    std::lock_guard lock(mutex_);
    live_.push_back(address);
  }
  uint64_t TakeAny(uint64_t random) {
    std::lock_guard lock(mutex_);
    if (live_.empty()) return 0;
    std::swap(live_[random % live_.size()], live_.back());
    uint64_t address = live_.back();
    live_.pop_back();
    return address;
  }

 private:
  std::mutex mutex_;
  std::vector<uint64_t> free_, live_;
};

class OrderTest : public RingTest {};

void Work(Heap* heap, uint64_t seed, int steps) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < steps; i++) {
    Event event{};
    if (random() % 2 == 0) {
      event.address = heap->Allocate();
      if (event.address == 0) continue;
      event.kind = EventKind::kAlloc;
      while (!Record(event)) sched_yield();
      heap->Hand(event.address);
    } else {
      event.address = heap->TakeAny(random());
      if (event.address == 0) continue;
      event.kind = EventKind::kFree;
      while (!Record(event)) sched_yield();
      heap->Free(event.address);
    }
    if (random() % 64 == 0) sched_yield();
  }
}

TEST_F(OrderTest, HandedOverMemoryGivesAPossibleHistory) {
  StartRing(1 << 20);
  Heap heap(7);
  std::vector<std::thread> threads;
  std::atomic<int> running{6};
  for (uint64_t t = 0; t < 6; t++) {
    threads.emplace_back([&, t] {
      Work(&heap, t, 30'000);
      running--;
    });
  }
  std::vector<Event> got;
  while (running > 0) Drain(&got);
  for (std::thread& thread : threads) thread.join();
  std::vector<Event> rest = StopAndDrain();
  got.insert(got.end(), rest.begin(), rest.end());
  std::set<uint64_t> live;
  for (size_t i = 0; i < got.size(); i++) {
    if (got[i].kind == EventKind::kAlloc) {
      ASSERT_TRUE(live.insert(got[i].address).second) << "allocated twice, at event " << i;
    } else {
      ASSERT_EQ(live.erase(got[i].address), 1u) << "freed while not live, at event " << i;
    }
  }
  EXPECT_GT(got.size(), 10'000u);
}

TEST_F(OrderTest, FreesComeFirstAtEqualTimes) {
  StartRing();
  Event alloc = MakeEvent(EventKind::kAlloc, 1);
  alloc.time_ns = 1000;
  ASSERT_TRUE(Record(alloc));
  std::thread([&] {
    Event free = MakeEvent(EventKind::kFree, 1);
    free.time_ns = 1000;
    ASSERT_TRUE(Record(free));
  }).join();
  std::vector<Event> got = StopAndDrain();
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].kind, EventKind::kFree);
}

// A pass over more than it takes at once ends early, and is as right about what it took: in the order of time, each
// definition before the events that use it, also those of another thread.
TEST_F(OrderTest, APassOfAFullRingTakesAPart) {
  StartRing(uint64_t{64} << 20);
  constexpr uint64_t kStacks = 40'000;
  RawFrame frames[20] = {};
  const auto leave = [](uint64_t stack, uint64_t time_ns) {
    Event event = MakeEvent(EventKind::kAlloc, 1);
    event.stack = stack;
    event.time_ns = time_ns;
    return Record(event);
  };
  for (uint64_t i = 1; i <= kStacks; i++) ASSERT_TRUE(RecordStack(i, frames, 20) && leave(i, 10 * i + 5));
  std::thread([&] {  // each after the definition, and before the event that follows it in the same chunk
    for (uint64_t i = 1; i <= kStacks; i++) ASSERT_TRUE(leave(i, 10 * i + 3));
  })
      .join();
  uint64_t last_ns = 0, events = 0, passes = 0;
  std::vector<bool> known(kStacks + 1);
  known[0] = true;
  do {
    reader_.BeginPass(false);
    StackView stack;
    while (reader_.NextStack(&stack)) known[stack.hash] = true;
    EventView view;
    uint64_t in_pass = 0;
    for (; reader_.NextEvent(&view); in_pass++) {
      ASSERT_GE(view.event->time_ns, last_ns);
      last_ns = view.event->time_ns;
      ASSERT_TRUE(known[view.event->stack]) << view.event->stack << " in pass " << passes;
    }
    ASSERT_TRUE(in_pass != 0 || !reader_.has_more());
    events += in_pass;
    reader_.MarkPending(++sequence_);
    reader_.Commit();
    passes++;
  } while (reader_.has_more());
  EXPECT_GT(passes, 2u);
  EXPECT_EQ(events, 2 * kStacks);
  EXPECT_EQ(GetStats().dropped_allocs + GetStats().dropped_definitions, 0u);
}

// An event is held back while another thread is in the middle of an earlier one.
TEST_F(OrderTest, UnfinishedRecordHoldsLaterOnesBack) {
  StartRing();
  Event first = MakeEvent(EventKind::kAlloc, 1);
  ASSERT_TRUE(Record(first));
  std::vector<Event> got;
  do {
    Drain(&got);
  } while (got.empty());
  Lane* mine = t_lane;
  mine->in_flight.store(first.time_ns, std::memory_order_release);  // as if we were preempted in the middle
  std::thread([&] {
    Event later = MakeEvent(EventKind::kAlloc, 2);
    ASSERT_TRUE(Record(later));
  }).join();
  got.clear();
  for (int i = 0; i < 10; i++) Drain(&got);
  EXPECT_EQ(got.size(), 0u);
  Event nested = MakeEvent(EventKind::kAlloc, 3);
  EXPECT_FALSE(Record(nested)) << "a signal handler's";
  mine->in_flight.store(0, std::memory_order_release);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  Drain(&got);
  EXPECT_EQ(got.size(), 1u);
}

// As if the thread had been cut off in the middle: bytes behind `committed`, in_flight set, and no more thread. Its
// record does not exist, and it holds nobody up for longer than it takes to find that it is gone.
TEST_F(OrderTest, ThreadThatDiesInARecordHoldsNobodyUp) {
  StartRing();
  std::thread([&] {
    Event whole = MakeEvent(EventKind::kAlloc, 1);
    ASSERT_TRUE(Record(whole));
    auto* half = reinterpret_cast<EventRecord*>(t_lane->data + t_lane->position);
    half->header = {kRecordEvent, 0, sizeof(EventRecord)};
    half->event.address = 2;
    t_lane->in_flight.store(whole.time_ns, std::memory_order_release);
  }).join();
  Event later = MakeEvent(EventKind::kAlloc, 3);
  ASSERT_TRUE(Record(later));
  std::vector<Event> got;
  while (got.size() < 2) Drain(&got);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].address, 1u);
  EXPECT_EQ(got[1].address, 3u);
  EXPECT_EQ(GetStats().stalled_threads, 0u);
  EXPECT_EQ(GetStats().dropped_allocs, 0u);
}

}  // namespace
}  // namespace gpumemshim::ring
