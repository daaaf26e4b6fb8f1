// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// BatchStream: the event batches of one section, each together with the batch after it (for Lookahead) and with what
// the file says between the two. Reads from where the TraceReader stands, up to the section's end. Not thread-safe;
// does not own the reader.
//
//   BatchStream stream(&reader);
//   while (stream.Advance()) Replay(stream.current(), stream.following(), stream.items());

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_BATCH_STREAM_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_BATCH_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "gpumem/trace.pb.h"
#include "replay/state/accounts.h"
#include "trace/event_batch.h"
#include "trace/reader.h"

namespace gpumem {

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

// Events that the recorder took and could not keep, counted from the trace's beginning: the ring was full, or the file
// could take no more. `others` are frees, and what may have been frees.
struct LostEvents {
  uint64_t allocs = 0, others = 0;
};

// What a replay must know before it plays a batch, where the events before it are not all there.
struct BatchEntry {
  std::vector<LiveSnapshotBatch> live_snapshot;  // what was alive, where the events that made it are not in the stream
  bool after_gap = false;  // events before it are missing, and it is not known what they left alive
  uint64_t gap_ns = 0;     // of the last event before the gap
  // What PyTorch's allocator said of itself since, by slot: the last of each device.
  std::map<uint32_t, MeasureValues> totals;
  // As the file says up to the batch after this one. What it says for the first time behind a batch was lost among that
  // batch's events or later: the ring drops what comes last.
  LostEvents lost;
};

class BatchStream {
 public:
  // Counters, losses, what CUPTI said, or an end.
  struct Item {
    ItemType type = ItemType::kEndOfStream;
    trace::Counters counters;
    trace::Losses losses;
    trace::Cupti cupti;
    trace::End end;
  };

  explicit BatchStream(TraceReader* reader) : reader_(reader) { ReadAhead(); }

  // Of a trace that is still being written, where following() is null: looks again whether it is there.
  void ReadOn();
  // The items so far were taken; those that come before the next batch are added to none.
  void ForgetItems() { items_.clear(); }
  // Behind the beginning of a recording what was alive then is recorded, and that was not there yet: what was replayed
  // since lacks it, for good.
  bool lacks_existing() const { return lacks_existing_; }

  // On to the next batch. False at the end of the section; items() then are those behind the last batch of a section
  // without any.
  bool Advance();

  const EventBatch& current() const { return current_; }
  const BatchEntry& entry() const { return entry_; }  // of the current batch; mostly empty
  // The same behind the last batch.
  const BatchEntry& entry_of_end() const { return following_entry_; }
  const EventBatch* following() const { return has_following_ ? &following_ : nullptr; }
  TraceReader::Place place() const { return current_place_; }  // of the current batch
  // What stands between the current batch and the one after it; before the first call of Advance, what stands before
  // the first batch.
  const std::vector<Item>& items() const { return items_; }
  // Gives everything back: batches and items may be large.
  void Close() {
    current_ = following_ = {};
    entry_ = following_entry_ = {};
    items_ = std::vector<Item>();
    has_following_ = false;
  }
  // The section ended because another one began: the reader's header() is that one's.
  bool found_next_section() const { return found_next_section_; }

 private:
  void ReadAhead();
  void NoteGap();
  void TakeExisting();
  void AddTotals(const trace::Counters& counters);
  void AddLost(const trace::Losses& losses);

  TraceReader* reader_;
  EventBatch current_, following_;
  BatchEntry entry_, following_entry_;
  TraceReader::Place current_place_, following_place_;
  bool has_following_ = false;
  bool found_next_section_ = false;
  bool lacks_existing_ = false;
  LostEvents lost_;
  std::vector<Item> items_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STATE_BATCH_STREAM_H_
