// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ExistingMemory: what PyTorch's allocator held when recording began (trace.proto, EXISTING). Its snapshot is taken a
// moment after that while other threads go on, so the snapshot alone is not the answer: what happened first at an
// address since the beginning decides whether it was in use at the beginning.
//
//   begin        thread 2: FREE b    snapshot: a, c       thread 2: FREE a    EXISTING a, c    END
//                thread 2: ALLOC c                                           at the beginning: a and b
//
// Not thread-safe. Nothing fails; what is impossible is passed over.
//
//   ExistingMemory existing(batch);                 // which begins with RECORDING_START
//   while (!existing.is_complete() && Next(&batch)) existing.Take(batch);
//   if (existing.is_known()) Resume(existing.Make());

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_EXISTING_MEMORY_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_EXISTING_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "gpumem/trace.pb.h"
#include "trace/event_batch.h"
#include "trace/reader.h"

namespace gpumem {

class ExistingMemory {
 public:
  // Whether such a batch announces what existed.
  static bool IsAnnouncedBy(const EventBatch& batch);

  explicit ExistingMemory(const EventBatch& first);

  // The batches behind the first one, in order.
  void Take(const EventBatch& batch) { TakeFrom(batch, 0); }
  // No further batch is wanted.
  bool is_complete() const { return is_complete_; }
  // The snapshot is there, all or most of it.
  bool is_known() const { return is_known_; }

  // What was alive at the beginning, as the events that made it: segments first.
  LiveSnapshotBatch Make() const;

 private:
  struct Thing {
    uint64_t address, size, requested, stream;
    int device;
    uint64_t kind;  // EXISTING's handle
  };
  struct First {
    bool is_free = false;
    uint64_t size = 0;
    int device = 0;
    uint64_t stream = 0;
  };
  using Firsts = absl::flat_hash_map<uint64_t, First>;

  void TakeFrom(const EventBatch& batch, size_t from);
  void Note(const EventBatch& batch, size_t i);
  void AddThings(const EventRow& row);
  // In use at the beginning, by what happened at its address since.
  bool WasThere(const Thing& thing) const;
  std::vector<Thing> InUse() const;

  uint64_t time_ns_ = 0;
  uint64_t told_ = 0, announced_ = 0;
  bool is_complete_ = false, is_known_ = false;
  std::vector<Thing> things_;
  Firsts blocks_, cuda_, mappings_;  // by address: what happened there first
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STATE_EXISTING_MEMORY_H_
