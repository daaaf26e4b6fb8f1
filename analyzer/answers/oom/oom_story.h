// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What can be told of failed requests beyond their numbers: which one to explain, why it failed, what to do about it,
// and which failures are one and the same search for a size. Every sentence rests on numbers of the event and carries
// them. Pure functions; text and JSON share them.
//
//   const OomEvent* oom = OomToExplain(analysis.ooms);
//   CauseOfOom(*oom, input);             // "Fragmentation: enough was free inside PyTorch's segments, ..."
//   for (const OomAction& action : ActionsOnOom(*oom, input)) ...

#ifndef GPUMEM_ANALYZER_ANSWERS_OOM_OOM_STORY_H_
#define GPUMEM_ANALYZER_ANSWERS_OOM_OOM_STORY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ledger/attribution/stage.h"
#include "ledger/load/input.h"
#include "replay/analysis.h"

namespace gpumem {

// A CUDA context with its kernels takes a few hundred MiB; what is missing beyond this somebody else holds.
inline constexpr uint64_t kContextAtMost = uint64_t{2} << 30;

// The last that was final, since that is the one a job dies of; the last of all where each was served.
const OomEvent* OomToExplain(const std::vector<OomEvent>& ooms);

// "PyTorch", or the function that was called.
std::string WhoAsked(const OomEvent& oom);

// Free inside PyTorch's segments.
uint64_t IdleBytes(const MeasureValues& values);

// Held by a stream-ordered pool, and not in use; known only of the pool that was asked.
uint64_t IdlePoolBytes(const OomEvent& oom);

// What the device counts as used and this trace does not: the CUDA context, kernels, rounding, other processes. Known
// only where the device stated its free memory.
std::optional<uint64_t> UnseenBytes(const OomEvent& oom);

// What the device could give one request of this program if all that it has were free; 0 where that is not known, and
// where others hold more than a CUDA context.
uint64_t RoomOfRequest(const OomEvent& oom);
// The request is larger than the device, or takes nearly all of that room: no matter what else is there.
bool IsTooLarge(const OomEvent& oom);

// Nothing smaller was tried: less than the request would have fit, and how much less is not known.
bool IsBoundedByRefusal(const OomEvent& oom);

// From this share of PyTorch's segments on, in percent, idle memory is why a request failed.
inline constexpr uint64_t kPercentIdle = 25;

// Whether anything says how much memory the device has, or had free. An import of a log may not.
bool KnowsRoom(const OomEvent& oom);

// By how much the request was too large; 0 where it is not known.
uint64_t MissingBytes(const OomEvent& oom);

// Whether the limit at which PyTorch gave up is the recorder's (GPUMEMSHIM_LIMIT); else the program set it itself.
bool IsLimitOfRecorder(const OomEvent& oom, const ProcessInfo& process);
// "GPUMEMSHIM_LIMIT", "torch.cuda.set_per_process_memory_fraction"
std::string NameOfLimit(const OomEvent& oom, const ProcessInfo& process);

// One sentence of judgement, "" where the numbers carry none.
std::string CauseOfOom(const OomEvent& oom, const ReportInput& input);

// Something to do, and the evidence that speaks for it.
struct OomAction {
  std::string action;
  std::string evidence;
  uint64_t bytes = 0;  // that it can make available at most; 0: nothing is gained by it, or it is not known
};
// What is certain first, then what is enough alone, then the rest.
// `fit_is_replayed`: fit_expandable is not an estimate.
std::vector<OomAction> ActionsOnOom(const OomEvent& oom, const ReportInput& input, bool fit_is_replayed = false);

// Bytes of the live set by the stage that allocated them; kNone: unknown.
std::map<Stage, uint64_t> LiveByStage(const LiveSet& live, const ReportInput& input);

// Failures for good of one line of code on one device: what a program that looks for the largest batch leaves behind.
struct OomGroup {
  int device = 0;
  std::string site;
  std::string who;
  size_t count = 0;
  uint64_t smallest = 0, largest = 0;
  uint64_t first_ns = 0, last_ns = 0;
};
// In the order of their first failure; `left_out` (may be null) is in none.
std::vector<OomGroup> GroupOoms(const std::vector<OomEvent>& ooms, const OomEvent* left_out, const ReportInput& input);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_OOM_OOM_STORY_H_
