// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// JudgeRanks: how even the ranks of a job are, which ones are not like the others, who stopped early and who ran out of
// memory first; from summaries alone. Why a rank holds more is found afterwards (rank_causes.h).
//
// Ranks are compared by the peak of one step that all of them completed: the one with the highest peak in the later
// half of the common steps. A rank that is unlike the others there and not in most steps of that half is left alone
// (`transients`). Ranks without steps are compared by the peaks of their runs. Values within 2 % of the median count as
// equal; CUDA memory in all, which depends on more chance, within 10 % or 32 MiB. docs/commands/ranks.md.
//
// Pure functions, thread-safe; never fail. The order of the ranks has no influence.
//
//   const RanksVerdict verdict = JudgeRanks(job, {});
//   verdict.kind == RanksKind::kUneven, verdict.deviations[0].ranks

#ifndef GPUMEM_ANALYZER_ANSWERS_RANKS_JUDGE_H_
#define GPUMEM_ANALYZER_ANSWERS_RANKS_JUDGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "answers/compare/diff.h"
#include "answers/ranks/clusters.h"
#include "answers/ranks/job.h"
#include "answers/ranks/job_events.h"

namespace gpumem {

struct RanksQuery {
  std::optional<uint64_t> step;  // compare in this one
};

enum class RanksKind : uint8_t {
  kNothing,  // fewer than two ranks can be compared
  kBalanced,
  kByDesign,  // ranks differ as the parts of the model that they hold do, and are even within each part
  kUneven,
};
absl::string_view RanksKindName(RanksKind kind);  // "by_design"

// What the numbers of a verdict are peaks of.
enum class RanksSubject : uint8_t { kAllocated, kCudaMemory };  // kCudaMemory: reserved, other libraries, context

// Ranks that hold as much as each other, and more or less than others do.
struct Deviation {
  std::vector<int> ranks;  // ascending
  size_t part = 0;         // of the model
  bool by_design = false;  // they hold another part of the model than `compared_to`
  uint64_t least = 0, most = 0;
  int compared = -1;     // the rank of these whose memory is held against another's
  int compared_to = -1;  // the median rank: of all, or of the ranks with the same part of the model
  uint64_t bytes = 0, compared_to_bytes = 0;  // of both
  std::string moment, moment_to;              // "step 3", "peak": of both
  Cause cause;                                // kNone until it was looked for
  std::vector<int> without_trace;             // of the two, ranks that kept a summary alone: no cause for them

  int64_t delta() const { return static_cast<int64_t>(bytes) - static_cast<int64_t>(compared_to_bytes); }
};

// One step, or some in a row, in all ranks.
struct StepRow {
  uint64_t first = 0, last = 0;  // steps
  uint64_t least = 0, median = 0, most = 0;
  int most_rank = -1;
  size_t ranks = 0;  // that completed one of these
};

struct RanksVerdict {
  RanksKind kind = RanksKind::kNothing;
  RanksSubject subject = RanksSubject::kAllocated;
  Measure measure = Measure::kAllocated;
  bool by_step = false;
  bool even_at_peak = false;               // the step with the highest peak is even, this one is not
  uint64_t first_step = 0, last_step = 0;  // of the comparison; more than one where a run has very many
  std::vector<RankValue> values;           // compared ones, smallest first
  std::vector<int> not_compared;           // ranks of the job: no memory, or not that step
  uint64_t least = 0, median = 0, mean = 0, most = 0;
  int median_rank = -1;
  size_t parts = 1;                   // of the model
  bool has_lone_parts = false;        // some are in one rank alone: whether it is even within them cannot be told
  std::vector<Deviation> deviations;  // largest difference first; those by design come last
  std::vector<int> transients;        // ranks unlike the others in the compared step alone
  std::vector<StepRow> steps;         // by number
  std::vector<Straggler> stragglers;  // furthest behind first
  std::optional<FirstOom> first_oom;
  std::vector<int> running;  // ranks whose process goes on
  std::vector<StrayMemory> stray;

  double MaxOverMean() const { return mean == 0 ? 1 : static_cast<double>(most) / static_cast<double>(mean); }
  double MaxOverMedian() const { return median == 0 ? 1 : static_cast<double>(most) / static_cast<double>(median); }
};

RanksVerdict JudgeRanks(const Job& job, const RanksQuery& query);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_RANKS_JUDGE_H_
