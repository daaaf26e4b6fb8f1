// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ReadSegments: what PyTorch's allocator asked CUDA for in a replay, from the trace of that. Not thread-safe. Nothing
// fails: a trace without events has no segments.
//
//   request.look = [&](const OpenTrace& open) { segments = ReadSegments(open); };

#ifndef GPUMEM_PLANNER_ALLOCATOR_REPLAYED_SEGMENTS_H_
#define GPUMEM_PLANNER_ALLOCATOR_REPLAYED_SEGMENTS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "planner/allocator/segment_log.h"
#include "replay/analyze.h"

namespace gpumem::plan {

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

#endif  // GPUMEM_PLANNER_ALLOCATOR_REPLAYED_SEGMENTS_H_
