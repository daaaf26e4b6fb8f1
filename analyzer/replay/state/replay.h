// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Replay: the one loop over the events of a section, with the exact state before each of them. What a pass wants to
// know it asks as a visitor; what begins and ends in memory it learns as a LifetimeObserver. Begins where the reader
// stands or at a checkpoint, and takes in what the file says between batches: what was alive behind a missing file
// (a live snapshot), gaps, counters and losses. Not thread-safe; the reader must outlive it.
//
//   struct Count : ReplayVisitor {
//     bool Take(const EventBatch& batch, size_t i, const EventBatch* following) {
//       replay->state().Apply(batch, i, following);      // not applied = it did not happen
//       return true;
//     }
//   };
//   Replay replay(&reader, LayerFilter::kAll);
//   replay.Run(&count);

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_REPLAY_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_REPLAY_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "replay/state/accounts.h"
#include "replay/state/batch_stream.h"
#include "replay/state/checkpoints.h"
#include "replay/state/lifetime_observer.h"
#include "replay/state/live_state.h"
#include "trace/file_window.h"
#include "trace/reader.h"

namespace gpumem {

// A visitor has these and `bool Take(const EventBatch& batch, size_t i, const EventBatch* following)`: the state is the
// one before that event; false ends the run in front of it. Found by name, not virtual: Take is called for each event.
struct ReplayVisitor {
  // Around a live snapshot: what is alive is forgotten and told anew; observers are told nothing of it.
  void BeforeSnapshot() {}
  void AfterSnapshot(const std::vector<LiveSnapshotBatch>&) {}
  // The state is the one before the first event of replay.stream().current().
  void BeginBatch() {}
  // What stands behind the current batch, or before the first one.
  void TakeItems(const std::vector<BatchStream::Item>&) {}
};

class Replay {
 public:
  // From the first event behind where the reader stands.
  Replay(TraceReader* reader, LayerFilter layer) : reader_(reader), state_(layer), stream_(reader) {}
  Replay(TraceReader* reader, const Checkpoint& from)
      : reader_(reader),
        state_(from.state),
        index_(from.next_event_index),
        is_at_checkpoint_(true),
        stream_((reader->Seek(from.place), reader)) {}
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  // Up to and with event `last`. True: that is reached, or the section's end. False: the visitor wanted no more; a
  // further call goes on with the event that it turned down.
  template <typename Visitor>
  bool Run(Visitor* visitor, const ProgressCallback& progress = nullptr, uint64_t last = UINT64_MAX);

  // The same for a trace that is still being written: what is there now, but not the newest batch, since what follows
  // it may say what it means (Lookahead); with `plays_newest` that one, too. To be called again when the reader has
  // more. At most so many batches; false where there may be more of them now.
  template <typename Visitor>
  bool Follow(Visitor* visitor, bool plays_newest, size_t most_batches);

  LiveState& state() { return state_; }
  const LiveState& state() const { return state_; }
  uint64_t index() const { return index_; }  // of the next event
  const BatchStream& stream() const { return stream_; }

  // No more events are wanted; what they left can still be read.
  void Close() {
    stream_.Close();
    has_ended_ = true;
  }

  // As LiveState::Observe, and also behind a live snapshot.
  void Observe(LifetimeObserver* observer) {
    observer_ = observer;
    state_.Observe(observer);
  }

 private:
  static constexpr uint64_t kEventsPerProgress = 1u << 18;

  template <typename Visitor>
  bool NextBatch(Visitor* visitor);
  template <typename Visitor>
  void TakeSnapshot(Visitor* visitor);

  TraceReader* reader_;
  LiveState state_;
  LifetimeObserver* observer_ = nullptr;
  uint64_t index_ = 0;
  uint64_t next_progress_ = kEventsPerProgress;
  size_t next_in_batch_ = 0;
  bool is_at_checkpoint_ = false;  // whose state has what stands in front of its batch
  bool has_ended_ = false;
  BatchStream stream_;
};

// Events of a live snapshot count too, though none is shown.
template <typename Visitor>
void Replay::TakeSnapshot(Visitor* visitor) {
  const std::vector<LiveSnapshotBatch>& live_snapshot = stream_.entry().live_snapshot;
  if (live_snapshot.empty()) return;
  visitor->BeforeSnapshot();
  state_.Observe(nullptr);
  index_ += state_.Resume(live_snapshot);
  state_.Observe(observer_);
  visitor->AfterSnapshot(live_snapshot);
}

// False at the section's end.
template <typename Visitor>
bool Replay::NextBatch(Visitor* visitor) {
  if (has_ended_) return false;
  visitor->TakeItems(stream_.items());
  if (!stream_.Advance()) {
    state_.Bridge(stream_.entry_of_end());
    has_ended_ = true;
    return false;
  }
  next_in_batch_ = 0;
  if (!std::exchange(is_at_checkpoint_, false)) {
    TakeSnapshot(visitor);
    state_.Bridge(stream_.entry());
  }
  visitor->BeginBatch();
  return true;
}

template <typename Visitor>
bool Replay::Follow(Visitor* visitor, bool plays_newest, size_t most_batches) {
  for (size_t batches = 0; batches < most_batches; ++batches) {
    if (stream_.following() == nullptr) stream_.ReadOn();
    const EventBatch* const following = stream_.following();
    if (following == nullptr && !plays_newest) return true;
    const EventBatch& batch = stream_.current();
    for (; next_in_batch_ < batch.count(); ++next_in_batch_, ++index_) visitor->Take(batch, next_in_batch_, following);
    if (following != nullptr) {
      NextBatch(visitor);
      continue;
    }
    visitor->TakeItems(stream_.items());
    stream_.ForgetItems();
    return true;
  }
  return false;
}

template <typename Visitor>
bool Replay::Run(Visitor* visitor, const ProgressCallback& progress, uint64_t last) {
  while (index_ <= last && !has_ended_) {
    const EventBatch& batch = stream_.current();
    const EventBatch* const following = stream_.following();
    for (; next_in_batch_ < batch.count(); ++next_in_batch_, ++index_) {
      if (index_ > last) return true;
      if (!visitor->Take(batch, next_in_batch_, following)) return false;
    }
    if (index_ > last || !NextBatch(visitor)) return true;
    if (progress && index_ >= next_progress_) {
      next_progress_ = index_ + kEventsPerProgress;
      progress(reader_->position(), reader_->file_bytes());
    }
  }
  return true;
}

// Revisit: looks at the exact live state after chosen events, once the first pass has found out which. Goes from
// checkpoint to checkpoint, so the cost depends on the number of looks, not on the length of the file; where a `follow`
// is given, through all events up to the last look.
//
//   Revisit(&reader, checkpoints, {{peak.event_index, [&](const LiveState& state) { ... }}});

struct StateLook {
  uint64_t event_index = 0;  // the state is the one after this event
  std::function<void(const LiveState&)> see;
};

// Is called with the state before the first event, and whenever the state was taken anew: to observe it.
using Follow = std::function<void(LiveState*)>;

// In the order of events. Looks beyond what can be read are left out. The reader stands anywhere afterwards.
void Revisit(TraceReader* reader, const Checkpoints& checkpoints, std::vector<StateLook> looks,
             const Follow& follow = nullptr);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STATE_REPLAY_H_
