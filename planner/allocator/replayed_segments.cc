// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/allocator/replayed_segments.h"

#include "replay/state/checkpoints.h"
#include "replay/state/lifetime_observer.h"
#include "replay/state/replay.h"
#include "trace/stack_table.h"

namespace gpumem::plan {
namespace {

class SegmentReader final : public ReplayVisitor, public LifetimeObserver {
 public:
  SegmentReader(const OpenTrace& trace, const Checkpoint& start)
      : replay_(trace.reader, start), names_(trace.names), origin_ns_(trace.analysis->origin_ns) {}

  ReplayedSegments Run() {
    replay_.Observe(this);
    replay_.Run(this);
    found_.changes = log_.Finish(replay_.state());
    return found_;
  }

  bool Take(const EventBatch& batch, size_t i, const EventBatch* following) {
    if (batch.kind(i) == trace::MARK && names_ != nullptr) {
      const std::string& text = names_->string(batch.text(i));
      if (text == kHistoryEnds) return false;
      if (text == kHistoryBegins) {
        log_.Begin();
        found_.begin_ns = batch.time_ns(i) - origin_ns_;
      }
    }
    replay_.state().Apply(batch, i, following);
    return true;
  }

  void OnAlloc(Held kind, uint32_t place) override { log_.OnAlloc(replay_.state(), kind, place); }
  void OnFree(Held kind, uint32_t place) override { log_.OnFree(replay_.state(), kind, place); }

 private:
  Replay replay_;
  const StackTable* const names_;
  const uint64_t origin_ns_;
  SegmentLog log_;
  ReplayedSegments found_;
};

}  // namespace

ReplayedSegments ReadSegments(const OpenTrace& trace) {
  const Checkpoint* const start = trace.checkpoints->Before(0);
  return start == nullptr ? ReplayedSegments() : SegmentReader(trace, *start).Run();
}

}  // namespace gpumem::plan
