// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ReadPeakGroups: what a rank held at its peak, by category, module and line, the largest first, so that a summary says
// it without its trace. Pure function.
//
//   ReadPeakGroups(ReadRunFacts(...), &rank);   // rank.peak_groups

#ifndef GPUMEM_ANALYZER_ANSWERS_RANKS_PEAK_GROUPS_H_
#define GPUMEM_ANALYZER_ANSWERS_RANKS_PEAK_GROUPS_H_

#include "answers/compare/run_facts.h"
#include "answers/ranks/rank_summary.h"

namespace gpumem {

inline constexpr size_t kMaxPeakGroups = 64;

void ReadPeakGroups(const RunFacts& facts, RankSummary* rank);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_RANKS_PEAK_GROUPS_H_
