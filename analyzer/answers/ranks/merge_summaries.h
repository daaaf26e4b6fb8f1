// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// MergeSummaries: two summaries of one process, of which the later one knows no more of the beginning than what its
// trace still holds (a rank that keeps no trace: docs/commands/ranks.md), as one. Steps of such a trace are counted
// from where it begins; they get the numbers that they have in the process by the time at which a step of both ended.
// Where no step is in both, steps were missed: the later ones are left out, and `steps_missed` says so. Pure function.
//
//   later = MergeSummaries(earlier, later);

#ifndef GPUMEM_ANALYZER_ANSWERS_RANKS_MERGE_SUMMARIES_H_
#define GPUMEM_ANALYZER_ANSWERS_RANKS_MERGE_SUMMARIES_H_

#include "answers/ranks/rank_summary.h"

namespace gpumem {

// Whether both are of the same recording.
bool IsSameRecording(const RankSummary& a, const RankSummary& b);

RankSummary MergeSummaries(const RankSummary& earlier, RankSummary later);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_RANKS_MERGE_SUMMARIES_H_
