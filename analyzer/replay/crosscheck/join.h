// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Joins the recorder's events with CUPTI's records: which calls both saw, which only one of them, and why.
//
// The two have no number in common: taking CUPTI's correlation id in a hook would need a subscription, which belongs to
// the program's profiler. So a call is the same one where operation and address agree, in the order of time: of one
// address, allocations and frees alternate; calls on pools are joined by operation and time alone. Sizes are compared,
// not joined by.
//
// A gap is explained only by what is known of this trace, and records that were dropped explain no more gaps than there
// were drops. docs/cross-check.md lists the causes.
//
// Thread-safety: pure.
//
//   const CrossCheck check = Join(evidence);
//   if (check.unexplained() != 0) ...

#ifndef GPUMEM_ANALYZER_REPLAY_CROSSCHECK_JOIN_H_
#define GPUMEM_ANALYZER_REPLAY_CROSSCHECK_JOIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "replay/crosscheck/evidence.h"

namespace gpumem {

enum class SeenBy { kBoth, kOnlyUs, kOnlyCupti };

// In the order in which they are looked for.
enum class GapCause {
  kNone,              // seen by both
  kSubAllocation,     // only us: a block that PyTorch hands out of a segment; no call of CUDA
  kVirtualMemory,     // cuMemCreate and its kin; mappings, of which CUPTI records most
  kRegistered,        // only us: host memory of the program, pinned
  kImported,          // only us: another owner's memory
  kGraphMemory,       // memory nodes of graphs, which CUPTI records at each launch
  kContextOrCode,     // only us: measured around a call that allocates inside the driver
  kPoolSetting,       // only us
  kNothing,           // only us: no bytes were asked for
  kNotRecording,      // only us: CUPTI did not record at all
  kBeforeCupti,       // only us: CUPTI began later
  kAfterCupti,        // only us: CUPTI had delivered its last record, or was left to another tool
  kDroppedByCupti,    // only us: no more than were dropped
  kStaticMemory,      // only CUPTI: a variable of loaded code; no call allocates it
  kDriverPool,        // only CUPTI: a pool that the driver makes itself, or trims itself
  kFreedWithContext,  // only CUPTI: a release at the end of a context, device or module
  kPaused,            // only CUPTI: recording was off
  kLostByUs,          // only CUPTI: no more than the recorder lost
  kPastUs,            // only CUPTI: calls are known to go past the recorder
  kUnexplained,
};

absl::string_view SeenByName(SeenBy seen_by);    // "both", "only us", "only CUPTI"
absl::string_view GapCauseName(GapCause cause);  // short and stable: "sub_allocation"
absl::string_view GapCauseText(GapCause cause);  // for people

struct CrossRow {
  std::string api;  // of what only CUPTI saw: "released: device memory"
  SeenBy seen_by = SeenBy::kBoth;
  GapCause cause = GapCause::kNone;
  uint64_t calls = 0;
  uint64_t bytes = 0;       // allocated, as whoever saw it says; us where both did
  uint64_t other_size = 0;  // both: calls whose sizes differ
};

struct CrossCheck {
  bool compared = false;  // CUPTI recorded for a time
  std::vector<CrossRow> rows;
  uint64_t both = 0, only_us = 0, only_cupti = 0;
  std::vector<uint32_t> records_only_cupti;  // indices in CrossEvidence::records; not added up by Add

  uint64_t unexplained() const;
  // Adds another process's.
  void Add(const CrossCheck& other);
};

CrossCheck Join(const CrossEvidence& evidence);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_CROSSCHECK_JOIN_H_
