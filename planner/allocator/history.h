// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ReadHistory: what a recorded program asked PyTorch's allocator for, as a request file, and what is known of it
// besides: streams, limits, what existed before, and what the allocator asked CUDA for in answer.
//
//   HistoryFacts facts;
//   request.look = [&](const OpenTrace& open) { status = ReadHistory(open, path, &facts); };
//
// The requests are the torch layer's events in order. What the trace does not say is inferred, and said in the facts:
// segments that go back to CUDA neither inside a request that failed at first nor before a request to CUDA of the same
// thread (garbage_collection_threshold) are an empty_cache(); a block without a requested size asks for its own size.
//
// Not thread-safe. Bounded memory: what is alive, and the segment log. Failure: where the file cannot be written.

#ifndef GPUMEM_PLANNER_ALLOCATOR_HISTORY_H_
#define GPUMEM_PLANNER_ALLOCATOR_HISTORY_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "planner/allocator/segment_log.h"
#include "replay/analyze.h"

namespace gpumem::plan {

struct HistoryFacts {
  uint64_t requests = 0;  // records of the file
  uint64_t allocs = 0, frees = 0, failed = 0, empty_caches = 0, outside = 0;
  uint64_t blocks = 0;                  // numbers in use at once
  int devices = 1;                      // of which requests speak, from 0
  uint64_t existing = 0;                // blocks from before the first event
  uint64_t existing_segments = 0;       // and the segments in which they lay, or nothing did
  bool existing_is_expandable = false;  // some of these
  uint64_t unknown_frees = 0;           // of blocks that the trace never saw allocated: left out
  uint64_t gaps = 0;                    // events are missing before so many places
  uint64_t rounded = 0;                 // blocks of more than 512 bytes whose requested size is not known
  uint64_t rounded_large_most = 0;      // of them, over 1 MiB: alive at once
  std::vector<uint64_t> streams = {0};  // as recorded, in the order of their first request; [0] is the default stream
  std::map<int, uint64_t> limits;       // device -> bytes that PyTorch may reserve
  std::map<int, uint64_t> room;  // device -> bytes that were there for all that is recorded, where a request failed
  std::map<int, std::pair<uint64_t, uint64_t>> spans;  // device -> from where to where segments lay at the beginning
  SegmentChanges segments;

  bool ends_with_failure = false;  // that was asked for: nothing behind it was read

  bool begins_empty() const { return existing == 0 && existing_segments == 0; }
};

// Writes the requests of `trace` to `path`, and what comes before them, where it does not begin empty, to two files
// beside it (request_file.h): to BeginningFile(path) what brings an empty allocator where the recorded one was
// (beginning.h), and to AnewFile(path) what asks for the same blocks and nothing else. `conf`: PYTORCH_CUDA_ALLOC_CONF
// of the recorded program. `until_failure_ns`: nothing is read behind the request that PyTorch turned down for good
// then; 0 = all of it.
absl::Status ReadHistory(const OpenTrace& trace, const std::string& path, const std::string& conf,
                         uint64_t until_failure_ns, HistoryFacts* facts);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_ALLOCATOR_HISTORY_H_
