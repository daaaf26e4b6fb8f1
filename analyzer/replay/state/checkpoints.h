// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Checkpoints: copies of the live state now and then during a replay, so that a later look at some event replays a
// short stretch instead of the whole file. Bounded: at most 64 copies and about 256 MiB; beyond, every second one is
// given up and they are taken half as often. Not thread-safe.
//
//   checkpoints.Offer(place, next_event_index, state);         // before each batch
//   const Checkpoint* from = checkpoints.Before(event_index);

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_CHECKPOINTS_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_CHECKPOINTS_H_

#include <cstdint>
#include <vector>

#include "replay/state/live_state.h"
#include "trace/reader.h"

namespace gpumem {

struct Checkpoint {
  TraceReader::Place place;       // of the batch that comes next
  uint64_t next_event_index = 0;  // of its first event
  LiveState state;
};

class Checkpoints {
 public:
  void Offer(const TraceReader::Place& place, uint64_t next_event_index, const LiveState& state) {
    if (!list_.empty() && next_event_index - list_.back().next_event_index < interval_) return;
    list_.push_back({place, next_event_index, state});
    places_ += state.places();
    while (list_.size() > 1 && (list_.size() > kMax || places_ > kMaxPlaces)) Thin();
  }

  // The last one at or before the event, or else the first, which has what was alive before the first event; null where
  // there is none at all.
  const Checkpoint* Before(uint64_t event_index) const {
    const Checkpoint* best = list_.empty() ? nullptr : &list_.front();
    for (const Checkpoint& checkpoint : list_) {
      if (checkpoint.next_event_index <= event_index) best = &checkpoint;
    }
    return best;
  }

 private:
  static constexpr size_t kMax = 64;
  static constexpr uint64_t kMaxPlaces = (256u << 20) / 100;  // in all copies; one takes about 100 bytes

  // Gives up every second one, never the first.
  void Thin() {
    std::vector<Checkpoint> kept;
    places_ = 0;
    for (size_t i = 0; i < list_.size(); i += 2) {
      places_ += list_[i].state.places();
      kept.push_back(std::move(list_[i]));
    }
    list_ = std::move(kept);
    interval_ *= 2;
  }

  uint64_t interval_ = 1u << 14;
  uint64_t places_ = 0;
  std::vector<Checkpoint> list_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STATE_CHECKPOINTS_H_
