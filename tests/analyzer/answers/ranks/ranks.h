// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// Summaries of ranks made by hand.

#ifndef GPUMEM_TESTS_ANALYZER_ANSWERS_RANKS_RANKS_H_
#define GPUMEM_TESTS_ANALYZER_ANSWERS_RANKS_RANKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "answers/ranks/rank_summary.h"

namespace gpumem::testing {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;

// A rank of a job of `world_size` that completed `steps` steps with this peak each.
RankSummary MakeRank(int rank, int world_size, uint64_t bytes, uint64_t steps = 10);
std::vector<RankSummary> MakeRanks(int world_size, uint64_t bytes, uint64_t steps = 10);

// Its peaks from step `first` on.
void SetPeaks(uint64_t first, uint64_t last, uint64_t bytes, RankSummary* rank);

// Parameters by number; `folded` of them all.
void HoldParameters(const std::vector<uint64_t>& names, uint64_t folded, RankSummary* rank);

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_ANSWERS_RANKS_RANKS_H_
