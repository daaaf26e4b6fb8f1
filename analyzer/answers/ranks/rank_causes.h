// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// FindRankCauses: why ranks hold more than the median rank: the engine of `gpumemshim diff` between one rank of each
// deviation and the rank that it is compared with, at the same step. Traces are opened one at a time, and the facts of
// two are kept. Not thread-safe.
//
//   FindRankCauses(job, /*most=*/4, load, &verdict);
//   verdict.deviations[0].cause.text   // "1 layer more in blocks, 4 -> 5: parameters 12 MiB -> 15 MiB"
//
// Never fails: where a trace cannot be read again the cause is not known.

#ifndef GPUMEM_ANALYZER_ANSWERS_RANKS_RANK_CAUSES_H_
#define GPUMEM_ANALYZER_ANSWERS_RANKS_RANK_CAUSES_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "answers/compare/run_facts.h"
#include "answers/ranks/judge.h"

namespace gpumem {

// The facts of a rank at a moment.
using LoadFacts = std::function<absl::StatusOr<RunFacts>(const RankSummary& rank, const std::string& moment)>;

// Of the first `most` deviations; 0 = of all.
void FindRankCauses(const Job& job, size_t most, const LoadFacts& load, RanksVerdict* verdict);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_RANKS_RANK_CAUSES_H_
