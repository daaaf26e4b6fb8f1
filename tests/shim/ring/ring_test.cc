// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/ring/ring.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include <atomic>
#include <latch>
#include <string>
#include <thread>

#include "ring_fixture.h"
#include "shim/base/clock.h"
#include "shim/ring/state.h"

namespace gpumemshim::ring {
namespace {

TEST_F(RingTest, InactiveTakesNothing) {
  Event event = MakeEvent(EventKind::kAlloc, 1);
  EXPECT_FALSE(Active());
  EXPECT_FALSE(Record(event));
  RawFrame frame = {1, 0, 0};
  EXPECT_FALSE(RecordStack(1, &frame, 1));
  EXPECT_EQ(GetStats().size_bytes, 0u);
}

TEST_F(RingTest, EventsComeBackAsTheyWere) {
  StartRing();
  std::vector<Event> sent;
  for (uint64_t i = 1; i <= 1000; i++) {
    Event event = MakeEvent(i % 2 != 0 ? EventKind::kAlloc : EventKind::kFree, i << 20, i);
    event.stack = i * 7;
    event.device = static_cast<int16_t>(i % 3);
    errno = 77;
    ASSERT_TRUE(Record(event));
    EXPECT_EQ(errno, 77);
    sent.push_back(event);
  }
  std::vector<Event> got = StopAndDrain();
  ASSERT_EQ(got.size(), sent.size());
  for (size_t i = 0; i < got.size(); i++) EXPECT_EQ(memcmp(&got[i], &sent[i], sizeof(Event)), 0) << i;
}

TEST_F(RingTest, FillsInTimeAndDuration) {
  StartRing();
  uint64_t started_ns = MonotonicNs();
  Event event = MakeEvent(EventKind::kAlloc, 1);
  ASSERT_TRUE(Record(event, started_ns));
  uint64_t ended_ns = MonotonicNs();
  EXPECT_GE(event.time_ns, started_ns);
  EXPECT_LE(event.time_ns, ended_ns);
  EXPECT_EQ(event.duration_ns, event.time_ns - started_ns);
  Event given = MakeEvent(EventKind::kAlloc, 2);
  given.time_ns = 12345;
  ASSERT_TRUE(Record(given));
  EXPECT_EQ(given.time_ns, 12345u);
}

TEST_F(RingTest, AnEventIsStoredAsFarAsItsLastField) {
  StartRing();
  const auto stored = [](auto set) {
    Event event{};
    event.kind = EventKind::kAlloc;
    set(event);
    EXPECT_TRUE(Record(event));
    const auto* end = reinterpret_cast<const uint8_t*>(t_lane->data) + t_lane->position;
    for (const uint32_t bytes : {32u, 64u, 80u, 104u}) {
      const auto* record = reinterpret_cast<const RecordHeader*>(end - bytes);
      if (t_lane->position >= bytes && record->type == kRecordEvent && record->size == bytes) return bytes;
    }
    return 0u;
  };
  EXPECT_EQ(stored([](Event& e) { e.address = 1; }), 32u);
  EXPECT_EQ(stored([](Event& e) { e.size = 2; }), 64u);
  EXPECT_EQ(stored([](Event& e) { e.stack = 3; }), 64u);
  EXPECT_EQ(stored([](Event& e) { e.torch_reserved = 4; }), 64u);
  EXPECT_EQ(stored([](Event& e) { e.requested_size = 5; }), 80u);
  EXPECT_EQ(stored([](Event& e) { e.stream = 9; }), 80u);
  EXPECT_EQ(stored([](Event& e) { e.handle = 6; }), 104u);
  EXPECT_EQ(stored([](Event& e) { e.tag = 7; }), 104u);
  EXPECT_EQ(stored([](Event& e) { e.result = -8; }), 104u);
  const std::vector<Event> got = StopAndDrain();
  ASSERT_EQ(got.size(), 9u);
  EXPECT_EQ(got[0].address, 1u);
  EXPECT_EQ(got[3].torch_reserved, 4u);
  EXPECT_EQ(got[3].requested_size, 0u);
  EXPECT_EQ(got[4].requested_size, 5u);
  EXPECT_EQ(got[5].stream, 9u);
  EXPECT_EQ(got[8].result, -8);
}

TEST_F(RingTest, DefinitionsComeBack) {
  StartRing();
  std::vector<RawFrame> frames;
  for (uint32_t i = 0; i < kMaxFrames + 10; i++) frames.push_back({0x1000 + i, i, i % 2});
  ASSERT_TRUE(RecordStack(11, frames.data(), 3));
  ASSERT_TRUE(RecordStack(12, frames.data(), kMaxFrames + 10));
  EXPECT_EQ(GetStats().truncated_stacks, 1u);
  // Larger than a chunk, so it travels in parts.
  std::string table(300'000, '\0');
  for (size_t i = 0; i < table.size(); i++) table[i] = static_cast<char>(i * 31);
  std::string filename = "train.py", name = "Trainer.step";
  RawCode code = {99,
                  filename.data(),
                  static_cast<uint32_t>(filename.size()),
                  name.data(),
                  static_cast<uint32_t>(name.size()),
                  table.data(),
                  static_cast<uint32_t>(table.size()),
                  42,
                  11};
  ASSERT_TRUE(RecordCode(code));

  reader_.BeginPass(false);
  RawCode got;
  ASSERT_TRUE(reader_.NextCode(&got));
  EXPECT_EQ(got.key, 99u);
  EXPECT_EQ(std::string(got.filename, got.filename_size), filename);
  EXPECT_EQ(std::string(got.name, got.name_size), name);
  EXPECT_EQ(std::string(static_cast<const char*>(got.line_table), got.line_table_size), table);
  EXPECT_EQ(got.first_line, 42u);
  EXPECT_EQ(got.python_minor, 11u);
  EXPECT_FALSE(reader_.NextCode(&got));
  StackView stack;
  ASSERT_TRUE(reader_.NextStack(&stack));
  EXPECT_EQ(stack.hash, 11u);
  ASSERT_EQ(stack.count, 3u);
  EXPECT_EQ(memcmp(stack.frames, frames.data(), 3 * sizeof(RawFrame)), 0);
  ASSERT_TRUE(reader_.NextStack(&stack));
  EXPECT_EQ(stack.count, kMaxFrames);
  EXPECT_FALSE(reader_.NextStack(&stack));
}

// A code object that comes while passes go on is put together over several of them.
TEST_F(RingTest, TextsComeBackAsTheyWere) {
  StartRing(kMinSizeBytes);
  const std::string longest(2 * kMaxTextBytes, 'x');
  ASSERT_TRUE(RecordText(7, "forward", 7));
  ASSERT_TRUE(RecordText(8, longest.data(), static_cast<uint32_t>(longest.size())));
  ASSERT_TRUE(RecordText(9, "", 0));
  Event event = MakeEvent(EventKind::kRangePush, 0);
  event.text = 7;
  ASSERT_TRUE(Record(event));
  Stop(1000);
  reader_.BeginPass(true);
  std::vector<std::string> texts;
  for (TextView text; reader_.NextText(&text);) texts.emplace_back(text.text, text.size);
  EXPECT_EQ(texts, (std::vector<std::string>{"forward", std::string(kMaxTextBytes, 'x'), ""}));
  EventView view;
  ASSERT_TRUE(reader_.NextEvent(&view));
  EXPECT_EQ(view.event->text, 7u);
}

TEST_F(RingTest, ChunksOfTextsAreGivenBackToWhoDoesNotAskForThem) {
  StartRing(kMinSizeBytes);
  std::vector<Event> events;
  for (uint64_t i = 0; i < 5000; ++i) {
    ASSERT_TRUE(RecordText(i + 1, "a text of some length", 21)) << i;
    if (i % 50 == 0) Drain(&events);
  }
}

TEST_F(RingTest, PausedTakesNothingAndGoesOnWhereItWas) {
  StartRing();
  Event event = MakeEvent(EventKind::kAlloc, 1);
  ASSERT_TRUE(Record(event));
  Pause();
  EXPECT_FALSE(Active());
  event = MakeEvent(EventKind::kAlloc, 2);
  EXPECT_FALSE(Record(event));
  EXPECT_EQ(GetStats().dropped_allocs, 0u);
  EXPECT_GT(GetStats().used_bytes, 0u);
  std::vector<Event> events;
  Drain(&events);
  ASSERT_TRUE(Resume());
  event = MakeEvent(EventKind::kAlloc, 3);
  ASSERT_TRUE(Record(event));
  Pause();
  Stop(1000);  // of a paused ring
  Drain(&events, true);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].address, 1u);
  EXPECT_EQ(events[1].address, 3u);
  Unlink();
  EXPECT_FALSE(Resume());  // there is none any more
}

TEST_F(RingTest, CodeInPartsOverSeveralPasses) {
  StartRing(kMinSizeBytes);  // smaller than the code object
  std::string table(1'000'000, 'x');
  std::atomic<bool> done{false};
  std::atomic<bool> taken{false};
  std::thread thread([&] {
    RawCode code = {5, "f", 1, "n", 1, table.data(), static_cast<uint32_t>(table.size()), 1, 11};
    for (int i = 0; i < 1000 && !taken; i++) {
      taken = RecordCode(code);
      if (!taken) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    done = true;
  });
  size_t found = 0;
  for (int extra = 0; extra < 3; extra += done) {
    reader_.BeginPass(false);
    RawCode got;
    while (reader_.NextCode(&got)) {
      EXPECT_EQ(got.line_table_size, table.size());
      found++;
    }
    StackView stack;
    while (reader_.NextStack(&stack)) {
    }
    EventView view;
    while (reader_.NextEvent(&view)) {
    }
    reader_.Commit();
  }
  thread.join();
  EXPECT_TRUE(taken);
  EXPECT_EQ(found, 1u);
}

TEST_F(RingTest, FullRingKeepsRoomForFrees) {
  StartRing(1 << 20);
  uint64_t allocs = 0, frees = 0;
  Event alloc = MakeEvent(EventKind::kAlloc, 1);
  while (Record(alloc)) {
    allocs++;
    alloc.time_ns = 0;
  }
  EXPECT_EQ(GetStats().dropped_allocs, 1u);
  RawFrame frame = {1, 0, 0};
  std::vector<RawFrame> frames(kMaxFrames, frame);
  EXPECT_FALSE(RecordStack(1, frames.data(), kMaxFrames));
  EXPECT_EQ(GetStats().dropped_definitions, 1u);
  Event free = MakeEvent(EventKind::kFree, 1);
  while (Record(free)) {
    frees++;
    free.time_ns = 0;
    // A thread that writes into the reserve may not fill it with allocations.
    alloc.time_ns = 0;
    if (frees == 1) {
      EXPECT_FALSE(Record(alloc));
    }
  }
  EXPECT_EQ(GetStats().dropped_frees, 1u);
  EXPECT_EQ(GetStats().dropped_allocs, 2u);
  uint64_t in_a_chunk = kChunkBytes / sizeof(EventRecord);
  EXPECT_GE(frees, in_a_chunk * (g_state.chunk_count / 10));
  std::vector<Event> got;
  Drain(&got);
  // The reader made room, so all are welcome again.
  alloc.time_ns = 0;
  EXPECT_TRUE(Record(alloc));
  std::vector<Event> rest = StopAndDrain();
  EXPECT_EQ(got.size() + rest.size(), allocs + frees + 1);
}

// More threads than chunks, all alive: idle ones must give their chunks back.
TEST_F(RingTest, IdleThreadsDoNotKeepTheRing) {
  StartRing(1 << 20);
  const uint32_t threads = 3 * g_state.chunk_count;
  std::vector<std::thread> pool;
  std::atomic<uint32_t> accepted{0};
  std::atomic<bool> stop{false};
  std::vector<Event> got;
  std::latch again(1), finished(threads);
  for (uint32_t t = 0; t < threads; t++) {
    pool.emplace_back([&, t] {
      auto record = [&](uint64_t address) {
        Event event = MakeEvent(EventKind::kAlloc, address);
        while (!Record(event)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        accepted++;
      };
      record(t + 1);
      again.wait();
      record(t + 1'000'001);
      finished.count_down();
    });
  }
  while (accepted < threads) Drain(&got);
  again.count_down();
  while (!finished.try_wait()) Drain(&got);
  for (std::thread& thread : pool) thread.join();
  std::vector<Event> rest = StopAndDrain();
  EXPECT_EQ(got.size() + rest.size(), 2 * threads);
}

TEST_F(RingTest, ShortLivedThreadsLeaveNothingBehind) {
  StartRing();
  std::vector<Event> got;
  const uint64_t rounds = 6000;  // more than there are lanes and chunks
  uint64_t waits = 0;
  for (uint64_t i = 0; i < rounds; i++) {
    std::thread([&] {
      Event event = MakeEvent(EventKind::kAlloc, i + 1);
      while (!Record(event)) {
        waits++;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        Drain(&got);
      }
    }).join();
    if (i % 50 == 0) Drain(&got);
  }
  std::vector<Event> rest = StopAndDrain();
  got.insert(got.end(), rest.begin(), rest.end());
  ASSERT_EQ(got.size(), rounds);
  for (uint64_t i = 0; i < rounds; i++) EXPECT_EQ(got[i].address, i + 1);
}

TEST_F(RingTest, StartsAgainAfterStop) {
  for (uint64_t round = 1; round <= 5; round++) {
    StartRing();
    Event event = MakeEvent(EventKind::kAlloc, round);
    ASSERT_TRUE(Record(event));
    std::vector<Event> got = StopAndDrain();
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].address, round);
    EXPECT_FALSE(Record(event));
    Unlink();
  }
}

TEST_F(RingTest, StopWhileThreadsRecordLosesNothingThatWasAccepted) {
  for (int round = 0; round < 20; round++) {
    StartRing();
    std::atomic<uint64_t> accepted{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
      threads.emplace_back([&] {
        uint64_t mine = 0;
        Event event = MakeEvent(EventKind::kAlloc, 1);
        for (int i = 0; i < 5000 && Record(event); i++) {
          mine++;
          event.time_ns = 0;
        }
        accepted += mine;
      });
    }
    std::vector<Event> got;
    Drain(&got);
    std::vector<Event> rest = StopAndDrain();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(got.size() + rest.size(), accepted);
    Unlink();
  }
}

std::atomic<uint64_t> g_handled{0};

void RecordInHandler(int) {
  Event event{};
  event.kind = EventKind::kFree;
  event.address = 2;
  if (Record(event)) g_handled.fetch_add(1);
}

// A handler interrupts records at random places and records itself. Whatever was accepted must come out, whole.
TEST_F(RingTest, SignalHandlersMayRecord) {
  StartRing();
  struct sigaction action = {}, before;
  action.sa_handler = &RecordInHandler;
  sigaction(SIGALRM, &action, &before);
  itimerval timer = {{0, 50}, {0, 50}};
  setitimer(ITIMER_REAL, &timer, nullptr);
  uint64_t accepted = 0;
  std::vector<Event> got;
  for (int i = 0; i < 300'000; i++) {
    Event event = MakeEvent(EventKind::kAlloc, 1);
    accepted += Record(event);
    if (i % 20'000 == 0) Drain(&got);
  }
  timer = {};
  setitimer(ITIMER_REAL, &timer, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  std::vector<Event> rest = StopAndDrain();
  got.insert(got.end(), rest.begin(), rest.end());
  uint64_t allocs = 0, frees = 0;
  for (const Event& event : got) {
    allocs += event.kind == EventKind::kAlloc && event.address == 1;
    frees += event.kind == EventKind::kFree && event.address == 2;
  }
  EXPECT_GT(g_handled, 0u);
  EXPECT_EQ(allocs, accepted);
  EXPECT_EQ(frees, g_handled);
}

}  // namespace
}  // namespace gpumemshim::ring
