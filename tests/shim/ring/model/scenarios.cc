// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "scenarios.h"

#include "shim/ring/state.h"
#include "world.h"

namespace model {

bool g_mark_late = false;

namespace {

using gpumemshim::EventKind;
constexpr uint64_t kLongerThanAReap = 600'000'000;

World& world() { return World::Get(); }
Explorer& explorer() { return Explorer::Get(); }

void Pass() { world().Pass(false, g_mark_late); }
void RunFibers() {
  explorer().RunFibers([] { world().CheckKillNow(); });
}

// Two threads publish, one with a stack, while two passes go by.
void Publish() {
  world().Reset();
  explorer().Spawn([] {
    world().RecordWithStack(0, 2);
    world().Record(0);
  });
  explorer().Spawn([] { world().Record(1, EventKind::kFree); });
  explorer().Spawn([] {
    Pass();
    Pass();
  });
  RunFibers();
  world().Finish();
}

// As above when the threads have recorded before: the step of every day, with nothing of the first time in it.
void PublishAgain() {
  world().Reset();
  world().Record(0);
  world().Record(1);
  world().Pass();
  explorer().Spawn([] { world().Record(0); });
  explorer().Spawn([] { world().Record(1); });
  explorer().Spawn([] {
    Pass();
    Pass();
  });
  RunFibers();
  world().Finish();
}

// No interleaving here, but the model's clock: a full ring holds a caller up for 100 us at most and the next one not at
// all, turns allocations and stacks away, and takes frees.
void FullRing() {
  constexpr uint64_t kAReading = 25'000;  // of the clock moves it by so much
  world().Reset(13);
  world().Record(0);
  world().FillChunk(0);
  world().RecordWithin(0, EventKind::kAlloc, false, gpumemshim::ring::kMaxWaitNs / 2,
                       gpumemshim::ring::kMaxWaitNs + kAReading);
  world().RecordWithin(0, EventKind::kAlloc, false, 0, 0);
  world().RecordWithin(1, EventKind::kAlloc, false, 0, 0);
  world().RecordWithStack(1, 2);
  world().RecordWithin(0, EventKind::kFree, true, 0, 2 * kAReading);
  world().RecordWithin(0, EventKind::kUnmap, true, 0, 2 * kAReading);
  world().RecordWithin(0, EventKind::kMap, false, 0, 0);
  world().Pass();
  world().Record(0);
  world().Finish();
}

// One thread goes on to its next chunk while the other publishes and the first chunk is given back.
void ChangeChunks() {
  world().Reset();
  world().Record(0);
  world().FillChunk(0);
  world().Record(1);
  world().Pass();
  explorer().Spawn([] { world().RecordWithStack(0, 1); });
  explorer().Spawn([] { world().Record(1); });
  explorer().Spawn([] {
    Pass();
    Pass();
  });
  RunFibers();
  world().Finish();
}

// The ring is short of chunks and a thread that was idle records again just when its chunk is taken back, and another
// takes what was given back.
void TakeBack() {
  world().Reset(9);
  world().Record(0);
  for (int i = 0; i < 4; ++i) world().Pass();  // the next one is where its patience ends
  explorer().Spawn([] {
    world().Record(0);
    world().Record(0);
  });
  explorer().Spawn([] { world().Record(1); });
  explorer().Spawn([] {
    Pass();
    Pass();
  });
  RunFibers();
  world().Finish();
}

// Two chunks are free, one of them for frees alone; a third comes back meanwhile.
void LastChunk() {
  world().Reset(11);
  world().Record(3);
  world().FillChunk(3);
  world().Record(3);
  explorer().Spawn([] { world().Record(0); });
  explorer().Spawn([] { world().Record(1, EventKind::kFree); });
  explorer().Spawn([] {
    world().Record(2);
    Pass();
  });
  RunFibers();
  world().Finish();
}

// A ring of one chunk, which is full, grows in three threads at once: two that find none, and the writer thread.
void GrowAll() {
  world().Reset(0, 1);
  world().Record(0);
  world().FillChunk(0);
  explorer().Spawn([] { world().Record(0); });
  explorer().Spawn([] { world().Record(1); });
  explorer().Spawn([] {
    world().Maintain();
    Pass();
  });
  RunFibers();
  world().Finish();
}

// A ring gives chunks back while one thread takes the next and another grows it again.
void ShrinkAndGrow() {
  world().Reset(0, 4);
  world().Record(0);
  world().FillChunk(0);
  world().Record(1);
  world().FillChunk(1);
  explorer().Spawn([] { world().Record(0); });
  explorer().Spawn([] { world().Record(1, EventKind::kFree); });
  explorer().Spawn([] {
    world().Shrink(1);
    Pass();
  });
  RunFibers();
  world().Finish();
}

// The thread whose turn it is to grow the ring dies in the middle of it.
void GrowAndDie() {
  world().Reset(0, 1);
  world().Record(0);
  world().FillChunk(0);
  explorer().Spawn([] { world().Record(0); }, true);
  explorer().Spawn([] {
    for (int i = 0; i < 2; ++i) {
      world().Sleep(kLongerThanAReap);
      Pass();
    }
    world().Maintain();
    world().Record(1);
  });
  RunFibers();
  world().Finish(1 + gpumemshim::ring::kHookStep);
}

// A thread dies anywhere, and its lane and chunk go to others.
void Death() {
  world().Reset();
  world().Record(0);
  world().FillChunk(0);
  explorer().Spawn([] { world().Record(0); }, true);
  explorer().Spawn([] { world().Record(1); });
  explorer().Spawn([] {
    for (int i = 0; i < 2; ++i) {
      world().Sleep(kLongerThanAReap);
      Pass();
    }
  });
  RunFibers();
  world().Finish(1);
}

// The ring is stopped while two threads record.
void StopAll() {
  world().Reset();
  world().Record(0);
  explorer().Spawn([] {
    world().Record(0);
    world().Record(0);
  });
  explorer().Spawn([] { world().Record(1); });
  explorer().Spawn([] {
    Pass();
    world().Stop();
    world().Pass(true, g_mark_late);
  });
  RunFibers();
  world().Finish();
}

}  // namespace

const std::vector<Scenario>& Scenarios() {
  static const std::vector<Scenario> scenarios = {
      {"publish", {.preemptions = 1}, {.preemptions = 1, .delayed_stores = 1}, &Publish},
      {"publish again", {.preemptions = 1}, {.preemptions = 2}, &PublishAgain},
      {"publish late", {.preemptions = 1, .delayed_stores = 1}, {.preemptions = 1, .delayed_stores = 2}, &PublishAgain},
      {"change chunks", {.preemptions = 1}, {.preemptions = 2}, &ChangeChunks},
      {"take back", {.preemptions = 1}, {.preemptions = 2}, &TakeBack},
      {"take back late", {.preemptions = 0, .delayed_stores = 1}, {.preemptions = 1, .delayed_stores = 2}, &TakeBack},
      {"last chunk", {.preemptions = 1}, {.preemptions = 2}, &LastChunk},
      {"full ring", {.preemptions = 0}, {.preemptions = 0}, &FullRing},
      {"grow", {.preemptions = 1}, {.preemptions = 2}, &GrowAll},
      {"grow and die", {.preemptions = 0, .deaths = 1}, {.preemptions = 1, .deaths = 1}, &GrowAndDie},
      {"shrink", {.preemptions = 1}, {.preemptions = 2}, &ShrinkAndGrow},
      {"death", {.preemptions = 0, .deaths = 1}, {.preemptions = 1, .deaths = 1}, &Death},
      {"stop", {.preemptions = 1, .delayed_stores = 1}, {.preemptions = 2}, &StopAll},
  };
  return scenarios;
}

}  // namespace model
