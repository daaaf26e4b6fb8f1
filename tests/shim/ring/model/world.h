// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// World: a ring as small as it can be, the writing threads and the writer thread around it, and a file whose packets
// are whole or not. Knows what every thread has recorded and looks, at each step, whether a kill -9 at this very moment
// would lose, double or invent anything: by the rules of shim/ring/layout.h, from the mapping and the file alone.
//
// Not thread-safe. One World at a time; Reset before each execution.
//
//   world.Reset();
//   explorer.Spawn([&] { world.Record(0); });
//   explorer.Spawn([&] { world.Pass(); });
//   explorer.RunFibers([&] { world.CheckKillNow(); });
//   world.Finish();

#ifndef GPUMEM_TESTS_SHIM_RING_MODEL_WORLD_H_
#define GPUMEM_TESTS_SHIM_RING_MODEL_WORLD_H_

#include <cstdint>
#include <vector>

#include "shim/ring/reader.h"
#include "shim/ring/ring.h"

namespace model {

inline constexpr int kMaxWriters = 16;
inline constexpr int kMaxEvents = 16;  // of a writer

class World {
 public:
  static World& Get();

  // A fresh ring, outside of fibers. Writers 0 to kMaxFibers - 1 are the fibers of that number.
  // `withdrawn` of its 15 chunks are as if threads that do nothing had them.
  // It begins with `present` chunks, and may grow to 15.
  void Reset(uint32_t withdrawn = 0, uint32_t present = 15);

  // As writer `writer`, which outside of fibers need not be a fiber: such a thread lives on and does nothing more.
  void Record(int writer, gpumemshim::EventKind kind = gpumemshim::EventKind::kAlloc);
  // Defines a stack of `frames` frames and records an event that refers to it.
  void RecordWithStack(int writer, uint32_t frames);
  // The same, and whether it is taken and how long it may hold the caller up are told before.
  void RecordWithin(int writer, gpumemshim::EventKind kind, bool taken, uint64_t shortest_ns, uint64_t longest_ns);
  // Stacks, until the writer's chunk has no room for an event more. Outside of fibers, after the chunk's first event.
  void FillChunk(int writer);

  // One pass of the writer thread. `mark_late`: a mistake that the tests plant.
  void Pass(bool everything = false, bool mark_late = false);
  void Stop();
  // What the writer thread does before a pass, at once; and what a ring that was not used for a while does.
  void Maintain() { gpumemshim::ring::Maintain(now_ns_); }
  void Shrink(uint32_t target);

  // Time passes for everybody.
  void Sleep(uint64_t ns) { now_ns_ += ns; }
  uint64_t Tick() { return now_ns_ += kTickNs; }

  void CheckKillNow();
  // Stops, takes the rest, and looks at all of it. `leaked`: chunks that threads may have taken to the grave.
  void Finish(uint32_t leaked = 0);

 private:
  // More than the margin that the reader leaves for clocks that disagree, so that the margin hides nothing.
  static constexpr uint64_t kTickNs = 25'000;

  enum class Fate : uint8_t { kInFlight, kRecorded, kRefused };
  struct FileEvent {
    uint8_t writer, number;
    bool is_free;
    uint64_t time_ns, stack;
  };

  void RecordEvent(int writer, gpumemshim::EventKind kind, uint64_t stack);
  void Become(int writer);
  void TakePass();
  void CountInRing(uint8_t (*found)[kMaxEvents + 1], std::vector<uint64_t>* stacks);
  void CheckOrderOfFile(size_t from);
  void CheckCounts();

  gpumemshim::ring::Reader* reader_ = nullptr;
  uint64_t now_ns_ = 0;
  uint32_t withdrawn_ = 0;
  bool stopped_ = false;               // by a fiber, so what is refused may not be a loss
  uint64_t sequence_ = 0, whole_ = 0;  // packets
  std::vector<FileEvent> file_, pending_;
  std::vector<uint64_t> file_stacks_, pending_stacks_;
  uint8_t begun_[kMaxWriters] = {};
  Fate fates_[kMaxWriters][kMaxEvents + 1] = {};
  uint64_t refused_allocs_ = 0, refused_frees_ = 0, refused_definitions_ = 0;
};

}  // namespace model

#endif  // GPUMEM_TESTS_SHIM_RING_MODEL_WORLD_H_
