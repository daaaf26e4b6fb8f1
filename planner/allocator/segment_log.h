// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SegmentLog: what PyTorch's allocator asked CUDA for and gave back, in order: its segments, or the pages of expandable
// ones. Two runs of the same requests through the same allocator have the same log; the first place where they differ
// is where the replay left the recorded course. Recorders state differently what is one thing, so two are made one:
// the pages that one request maps (or gives back) count together, and what was there at the beginning has no order.
//
//   SegmentLog log;
//   log.OnAlloc(state, kind, place);   // of each thing, as a LifetimeObserver receives it
//   log.Begin();                       // what there is now is the beginning
//   ...
//   std::optional<SegmentDifference> difference = FirstDifference(recorded.Finish(), replayed.Finish());
//
// Memory: 32 bytes a segment event. Not thread-safe. Nothing fails.

#ifndef GPUMEM_PLANNER_ALLOCATOR_SEGMENT_LOG_H_
#define GPUMEM_PLANNER_ALLOCATOR_SEGMENT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "replay/analyze.h"
#include "replay/state/lifetime_observer.h"
#include "replay/state/live_state.h"

namespace gpumem::plan {

// Bytes that a device's allocator got (positive) or gave back (negative), in order; by device.
using SegmentChanges = std::map<int, std::vector<int64_t>>;

class SegmentLog {
 public:
  // To be called as a LifetimeObserver is; `state` is where the thing is read.
  void OnAlloc(const LiveState& state, Held kind, uint32_t place);
  void OnFree(const LiveState& state, Held kind, uint32_t place);

  // What lives now was there before the history: first in the changes, by size; pages as one.
  void Begin();

  // What lives in the end counts as what it is then. The log is empty afterwards.
  SegmentChanges Finish(const LiveState& state);

 private:
  struct Entry {
    uint32_t slot = 0;
    int64_t change = 0;
    uint64_t blocks_before = 0;
    bool is_page = false;
    bool is_segment = false;
  };

  std::vector<Entry> entries_;
  absl::flat_hash_map<uint64_t, size_t> open_;  // by kind and place: its entry
  size_t beginning_ = 0;                        // so many entries
  uint64_t blocks_ = 0;                         // that PyTorch gave out since
};

struct SegmentDifference {
  int device = 0;
  size_t index = 0;      // of the change; so many before it are equal
  int64_t recorded = 0;  // 0 = there is none any more
  int64_t replayed = 0;
};

std::optional<SegmentDifference> FirstDifference(const SegmentChanges& recorded, const SegmentChanges& replayed);

// How many segments were got and given back, over all devices.
struct SegmentCounts {
  uint64_t got = 0, given_back = 0;
};
SegmentCounts Count(const SegmentChanges& changes);

// ReadSegments: what PyTorch's allocator asked CUDA for in a replay, from the trace of that. Not thread-safe. Nothing
// fails: a trace without events has no segments.
//
//   request.look = [&](const OpenTrace& open) { segments = ReadSegments(open); };

// The mark that a replay makes when it has what was there before the history.
inline constexpr absl::string_view kHistoryBegins = "gpumemshim replay: the history begins";
// And when it has replayed it: later events are not part of the replay.
inline constexpr absl::string_view kHistoryEnds = "gpumemshim replay: the history ends";

struct ReplayedSegments {
  SegmentChanges changes;
  uint64_t begin_ns = 0;  // of the mark, from the first event on; 0 = there is none
};

ReplayedSegments ReadSegments(const OpenTrace& trace);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_ALLOCATOR_SEGMENT_LOG_H_
