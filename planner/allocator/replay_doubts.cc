// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How far a replay can be trusted (Replayer::Judge).

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format.h"
#include "planner/allocator/replayer.h"
#include "planner/allocator/segment_log.h"

namespace gpumem::plan {
namespace {

// When blocks that other streams use can be used again, and what lies in a MemPool, is in no event.
std::string NotFollowed(const Analysis& analysis) {
  if (analysis.devices.empty()) return "";
  const AllocatorUses& uses = analysis.devices.front().fragmentation.uses;
  std::vector<std::string> why;
  if (uses.record_streams != 0)
    why.push_back(absl::StrCat("Tensor.record_stream was called ", FormatCountOf(uses.record_streams, "time", "times"),
                               ": when these blocks could be used again is not recorded"));
  if (uses.mem_pools != 0)
    why.push_back(absl::StrCat(FormatCountOf(uses.mem_pools, "MemPool was", "MemPools were"),
                               " made: which blocks lie in it is not recorded"));
  return absl::StrJoin(why, "; ");
}

}  // namespace

void Replayer::Judge(const SegmentChanges& baseline) {
  const HistoryFacts& facts = answer_.facts;
  std::vector<std::string>& doubts = answer_.doubts;
  answer_.not_followed = NotFollowed(loaded_->analysis);
  if (!answer_.not_followed.empty()) doubts.push_back(answer_.not_followed);
  if (answer_.baseline.error.empty()) answer_.difference = FirstDifference(facts.segments, baseline);
  if (!facts.begins_empty() && !answer_.what_ifs.empty())
    doubts.push_back(absl::StrCat("the history does not begin empty: how other settings would have placed the ",
                                  FormatCountOf(facts.existing, "block", "blocks"),
                                  " from before it is not known, so what-ifs begin with these blocks and no cache"));
  if (facts.gaps != 0 || loaded_->analysis.losses.Total() != 0 || loaded_->is_damaged())
    doubts.push_back("events are missing from the trace");
  if (facts.unknown_frees != 0)
    doubts.push_back(absl::StrCat(FormatCountOf(facts.unknown_frees, "free is", "frees are"),
                                  " of blocks that the trace never saw allocated: left out"));
  if (facts.rounded != 0 && !answer_.what_ifs.empty())
    doubts.push_back(absl::StrCat("the requested size of ", FormatCountOf(facts.rounded, "block", "blocks"),
                                  " is not recorded: they ask for their rounded size, which may add up to ",
                                  FormatBytes(answer_.most_rounding()), " to other settings"));
  if (answer_.baseline.served != 0)
    doubts.push_back(
        absl::StrCat(FormatCountOf(answer_.baseline.served, "request", "requests"),
                     " that failed when recorded would have been served in the replay of the same settings"));
  if (answer_.capacity == 0 && facts.room.empty() && answer_.recorded.retries + facts.failed != 0)
    doubts.push_back("how large the recorded GPU is, is not known, and requests failed on it");
  for (const std::string& note : answer_.baseline.notes) doubts.push_back(note);
}

}  // namespace gpumem::plan
