// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What happened in a job, by steps and by the clock: who ran out of memory first, and what the others held then; who
// stopped before the others or is behind them. Pure functions, thread-safe.
//
//   if (const auto oom = FindFirstOom(job)) oom->rank, oom->others
//
// Clocks of hosts may differ; what others held is the highest of the short time around the moment (a 240th of the run).

#ifndef GPUMEM_ANALYZER_ANSWERS_RANKS_JOB_EVENTS_H_
#define GPUMEM_ANALYZER_ANSWERS_RANKS_JOB_EVENTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "answers/ranks/clusters.h"
#include "answers/ranks/job.h"

namespace gpumem {

struct Straggler {
  int rank = -1;
  uint64_t last_step = 0;  // completed; 0 = none
  uint64_t behind = 0;     // steps, of the median rank
  RunEnding ending = RunEnding::kUnknown;
  uint64_t last_realtime_ns = 0;
};

struct FirstOom {
  int rank = -1;
  uint64_t realtime_ns = 0, step = 0, refused = 0, allocated = 0;
  std::vector<RankValue> others;  // what they held then, smallest first
};

std::optional<FirstOom> FindFirstOom(const Job& job);

// Ranks at least two steps behind the median rank, and those that were killed where most completed; furthest first.
std::vector<Straggler> FindStragglers(const Job& job);

std::vector<int> RunningRanks(const Job& job);

// Memory of a rank on the GPU of another rank of its host: contexts and tensors that ended up there by mistake.
struct StrayMemory {
  int rank = -1;
  int device = -1;
  uint64_t bytes = 0;
};

// Largest first; less than 1 % of what the rank has on its own GPU does not count.
std::vector<StrayMemory> FindStrayMemory(const Job& job);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_RANKS_JOB_EVENTS_H_
