// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "views/process_moments.h"

#include <algorithm>
#include <utility>

#include "replay/batch_stream.h"
#include "replay/checkpoints.h"
#include "replay/live_state.h"

namespace gpumem {
namespace {

uint64_t BytesOf(const Accounts& accounts, ViewMeasure measure) {
  if (measure == ViewMeasure::kPinned) return accounts.host_pinned;
  return measure == ViewMeasure::kManaged ? accounts.managed : accounts.imported;
}

class Search {
 public:
  Search(const Checkpoint& start, ViewMeasure measure, uint64_t from_ns, uint64_t to_ns)
      : state_(start.state), index_(start.next_event_index), measure_(measure), from_ns_(from_ns), to_ns_(to_ns) {}

  void Enter(const BatchEntry& entry) {
    index_ += state_.Resume(entry.live_snapshot);
    state_.Bridge(entry);
  }

  // False where the window ends.
  bool Replay(const EventBatch& batch, const EventBatch* following) {
    for (size_t i = 0; i < batch.count(); ++i, ++index_) {
      clock_ns_ = std::max(clock_ns_, batch.time_ns(i));
      if (IsMark(batch.kind(i))) continue;
      if (clock_ns_ > to_ns_) return false;
      if (!is_open_ && clock_ns_ >= from_ns_) Open();
      state_.Apply(batch, i, following);
      found_.last_event_index = index_;
      if (is_open_) Offer(clock_ns_, index_);
    }
    return true;
  }

  ProcessMoments Take() {
    // A window without an event has what was there when it opened.
    if (!is_open_) Open();
    found_.end_bytes = BytesOf(state_.accounts(), measure_);
    return found_;
  }

 private:
  void Open() {
    is_open_ = true;
    if (index_ > 0) Offer(from_ns_, index_ - 1);
  }

  void Offer(uint64_t time_ns, uint64_t event_index) {
    const uint64_t bytes = BytesOf(state_.accounts(), measure_);
    if (bytes > found_.peak.bytes) found_.peak = {bytes, time_ns, event_index};
  }

  LiveState state_;
  uint64_t index_;  // of the next event
  ViewMeasure measure_;
  uint64_t from_ns_, to_ns_;
  uint64_t clock_ns_ = 0;
  bool is_open_ = false;
  ProcessMoments found_;
};

}  // namespace

ProcessMoments FindProcessMoments(const OpenTrace& trace, ViewMeasure measure, uint64_t from_ns, uint64_t to_ns) {
  const Checkpoint* const start = trace.checkpoints->Before(0);
  if (start == nullptr) return {};
  Search search(*start, measure, from_ns, to_ns);
  trace.reader->Seek(start->place);
  BatchStream stream(trace.reader);
  bool is_first = true;
  while (stream.Advance()) {
    if (!std::exchange(is_first, false)) search.Enter(stream.entry());
    if (!search.Replay(stream.current(), stream.following())) break;
  }
  return search.Take();
}

}  // namespace gpumem
