// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ReplayAnswer: what a recorded history needed, and what it would have needed under other settings of PyTorch's
// allocator. Plain values; bytes.

#ifndef GPUMEM_PLANNER_ALLOCATOR_REPLAY_ANSWER_H_
#define GPUMEM_PLANNER_ALLOCATOR_REPLAY_ANSWER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "answers/report/what_if.h"
#include "ledger/load/input.h"
#include "planner/allocator/history.h"
#include "planner/allocator/segment_log.h"
#include "render/document.h"

namespace gpumem::plan {

// A request that was not served in a replay, and ended it.
struct ReplayDeath {
  uint64_t at = 0;  // requests before it
  uint64_t size = 0;
  int device = 0;
  bool outside = false;  // memory that is not PyTorch's
};

// One device of one run, recorded or replayed.
struct DeviceNeed {
  uint64_t peak_reserved = 0, peak_allocated = 0;
  uint64_t free_at_peak = 0, largest_free_at_peak = 0;  // inside segments, at the peak of reserved
};

struct ReplayedRun {
  std::string conf;  // PYTORCH_CUDA_ALLOC_CONF; "" = PyTorch's defaults
  ProgramChange change = ProgramChange::kNone;
  uint64_t memory = 0;    // of the simulated GPU
  std::string error;      // why there is no answer; else ""
  bool is_async = false;  // backend:cudaMallocAsync: no segments; reserved is what the driver's pool holds
  std::map<int, DeviceNeed> devices;
  SegmentCounts segments;
  uint64_t retries = 0;  // requests that CUDA turned down at first
  uint64_t failed = 0;   // that failed when they were recorded, and here
  uint64_t served = 0;   // that failed when they were recorded, and not here
  uint64_t done = 0;     // requests
  std::optional<ReplayDeath> death;
  std::optional<uint64_t> fit;  // the largest request that would be served in place of the last one
  std::vector<std::string> notes;
  std::string trace;  // of the replay; "" = not kept

  const DeviceNeed& Of(int device) const {
    static const DeviceNeed kNone;
    const auto found = devices.find(device);
    return found == devices.end() ? kNone : found->second;
  }
};

struct ReplayAnswer {
  std::string torch;           // version that replayed
  std::string torch_recorded;  // "" = not known
  std::string recorded_conf;
  uint64_t capacity = 0;  // of the recorded GPU; 0 = not known
  int device = 0;         // that the answer is about: the one with the largest peak of reserved
  ReplayedRun recorded;   // what the trace says
  ReplayedRun baseline;   // the replay of the recorded settings
  // The same from what lived before the history alone, as what-ifs begin; nothing where the history begins empty.
  std::optional<ReplayedRun> anew;
  std::optional<SegmentDifference> difference;
  HistoryFacts facts;
  std::string not_followed;         // what the program did that a replay cannot follow; "" = nothing
  std::vector<std::string> doubts;  // why it may be off although nothing differs, or differs
  std::vector<ReplayedRun> what_ifs;

  // Every segment as recorded, nothing lost.
  bool is_exact() const {
    return baseline.error.empty() && !baseline.death.has_value() && !difference.has_value() && doubts.empty();
  }
  // How much memory the device had for all that is recorded.
  bool knows_room() const { return capacity != 0 || facts.room.contains(device); }
  // What the what-ifs are held against.
  const ReplayedRun& compared() const { return anew.has_value() ? *anew : baseline; }
  // How far the replay of the recorded settings is from the recorded peak.
  uint64_t off() const {
    const uint64_t a = recorded.Of(device).peak_reserved, b = compared().Of(device).peak_reserved;
    return a > b ? a - b : b - a;
  }
  // By how much requests whose exact size is not known may add to a what-if.
  uint64_t most_rounding() const { return facts.rounded_large_most << 20; }
};

// The what-if that needs least, of those that got to the end; null where there is none.
const ReplayedRun* BestOf(const ReplayAnswer& answer);

// Of the recorded trace: the answer in a sentence, a row a setting, and how far it can be trusted; docs/json.md has the
// fields. `answer` outlives it.
//
//   console->Print(json ? ToJson(ReplayDocument(answer, input)) : ...);
//
// Thread-safety: pure functions.
Document ReplayDocument(const ReplayAnswer& answer, const ReportInput& input);
// What people read of it.
void AddReplay(const ReplayAnswer& answer, Document* document);

// The answer in one sentence, without a full stop: "expandable_segments:True would have kept 4.10 GiB less reserved
// (12.3 GiB -> 8.20 GiB)".
std::string ReplaySentence(const ReplayAnswer& answer);

// How settings are named: "defaults" where there are none.
std::string ConfName(const std::string& conf);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_ALLOCATOR_REPLAY_ANSWER_H_
