// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// BatchStream: the event batches of one section, each together with the batch after it (for Lookahead) and with what
// the file says between the two. Reads from where the TraceReader stands, up to the section's end. Not thread-safe;
// does not own the reader.
//
//   BatchStream stream(&reader);
//   while (stream.Advance()) Replay(stream.current(), stream.following(), stream.items());

#ifndef GPUMEM_ANALYZER_REPLAY_BATCH_STREAM_H_
#define GPUMEM_ANALYZER_REPLAY_BATCH_STREAM_H_

#include <vector>

#include "trace/reader.h"

namespace gpumem {

class BatchStream {
 public:
  // Counters, losses or an end.
  struct Item {
    ItemType type = ItemType::kEndOfStream;
    trace::Counters counters;
    trace::Losses losses;
    trace::End end;
  };

  explicit BatchStream(TraceReader* reader) : reader_(reader) { ReadAhead(); }

  // On to the next batch. False at the end of the section; items() then are those behind the last batch of a section
  // without any.
  bool Advance();

  const EventBatch& current() const { return current_; }
  // What was alive before the current batch, where the events that made it are not in the stream; mostly empty.
  const std::vector<CarriedBatch>& carried() const { return carried_; }
  const EventBatch* following() const { return has_following_ ? &following_ : nullptr; }
  TraceReader::Place place() const { return current_place_; }  // of the current batch
  // What stands between the current batch and the one after it; before the first call of Advance, what stands before
  // the first batch.
  const std::vector<Item>& items() const { return items_; }
  // The section ended because another one began: the reader's header() is that one's.
  bool found_next_section() const { return found_next_section_; }

 private:
  void ReadAhead();

  TraceReader* reader_;
  EventBatch current_, following_;
  std::vector<CarriedBatch> carried_, following_carried_;
  TraceReader::Place current_place_, following_place_;
  bool has_following_ = false;
  bool found_next_section_ = false;
  std::vector<Item> items_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_BATCH_STREAM_H_
