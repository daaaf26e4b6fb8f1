// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Lookahead: what the same thread does next. PyTorch's reports name no segment, but within one malloc the CUDA call and
// the block that comes of it follow each other on one thread; so whether a CUDA allocation becomes a segment is known
// at its own time, and `other` never holds a segment for a moment. Looks into the current batch and the one after it,
// over a bounded number of events. A value; owns nothing.
//
//   ahead.ForThread(thread, [&](const EventBatch& batch, size_t i) { return batch.layer(i) != trace::TORCH; });  //
//   false stops

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_LOOKAHEAD_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_LOOKAHEAD_H_

#include <cstddef>
#include <cstdint>

#include "replay/state/work.h"
#include "trace/event_batch.h"

namespace gpumem {

class Lookahead {
 public:
  // `following` may be null. `index` is the event in `current` behind which the view starts. `work`, which must outlive
  // this, counts the events that are looked at.
  Lookahead(const EventBatch* current, size_t index, const EventBatch* following, ReplayWork* work)
      : current_(current), following_(following), index_(index), work_(work) {}

  // Visits the thread's next events in order until `visit` returns false.
  template <typename Visit>
  void ForThread(uint32_t thread, Visit visit) const {
    size_t all_left = kMaxEvents;
    size_t own_left = kMaxOwnEvents;
    if (Walk(*current_, index_ + 1, thread, &all_left, &own_left, visit) && following_ != nullptr)
      Walk(*following_, 0, thread, &all_left, &own_left, visit);
    work_->Spend(kMaxEvents - all_left);
  }

 private:
  static constexpr size_t kMaxEvents = 16384;
  static constexpr size_t kMaxOwnEvents = 4096;

  template <typename Visit>
  static bool Walk(const EventBatch& batch, size_t from, uint32_t thread, size_t* all_left, size_t* own_left,
                   Visit& visit) {
    for (size_t i = from; i < batch.count(); ++i) {
      if (*all_left == 0) return false;
      --*all_left;
      if (batch.thread(i) != thread) continue;
      if ((*own_left)-- == 0 || !visit(batch, i)) return false;
    }
    return true;
  }

  const EventBatch* current_;
  const EventBatch* following_;
  size_t index_;
  ReplayWork* work_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STATE_LOOKAHEAD_H_
