// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/stacks/process_moments.h"

#include <algorithm>

#include "replay/state/checkpoints.h"
#include "replay/state/live_state.h"
#include "replay/state/replay.h"

namespace gpumem {
namespace {

uint64_t BytesOf(const Accounts& accounts, ViewMeasure measure) {
  if (measure == ViewMeasure::kPinned) return accounts.host_pinned;
  return measure == ViewMeasure::kManaged ? accounts.managed : accounts.imported;
}

class Search : public ReplayVisitor {
 public:
  Search(Replay* replay, ViewMeasure measure, uint64_t from_ns, uint64_t to_ns)
      : replay_(replay), measure_(measure), from_ns_(from_ns), to_ns_(to_ns) {}

  bool Take(const EventBatch& batch, size_t i, const EventBatch* following) {
    clock_ns_ = std::max(clock_ns_, batch.time_ns(i));
    if (IsMark(batch.kind(i))) return true;
    if (clock_ns_ > to_ns_) return false;
    if (!is_open_ && clock_ns_ >= from_ns_) Open();
    replay_->state().Apply(batch, i, following);
    found_.last_event_index = replay_->index();
    if (is_open_) Offer(clock_ns_, replay_->index());
    return true;
  }

  ProcessMoments Found() {
    // A window without an event has what was there when it opened.
    if (!is_open_) Open();
    found_.end_bytes = BytesOf(replay_->state().accounts(), measure_);
    return found_;
  }

 private:
  void Open() {
    is_open_ = true;
    if (replay_->index() > 0) Offer(from_ns_, replay_->index() - 1);
  }

  void Offer(uint64_t time_ns, uint64_t event_index) {
    const uint64_t bytes = BytesOf(replay_->state().accounts(), measure_);
    if (bytes > found_.peak.bytes) found_.peak = {bytes, time_ns, event_index};
  }

  Replay* replay_;
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
  Replay replay(trace.reader, *start);
  Search search(&replay, measure, from_ns, to_ns);
  replay.Run(&search);
  return search.Found();
}

}  // namespace gpumem
