// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What `gpumemshim ranks` answers, as one sentence and as a document. Pure functions.
//
//   const RanksReport report{job, verdict};
//   RanksHeadline(report)   // "rank 3 holds 96 MiB (24 %) more than rank 1, the median rank, at step 3: ..."
//   ToText(RanksAnswer(report, {}), style)

#ifndef GPUMEM_ANALYZER_ANSWERS_RANKS_RANKS_REPORT_H_
#define GPUMEM_ANALYZER_ANSWERS_RANKS_RANKS_REPORT_H_

#include <string>
#include <vector>

#include "answers/ranks/job.h"
#include "answers/ranks/judge.h"
#include "render/document.h"

namespace gpumem {

struct RanksReport {
  const Job& job;
  const RanksVerdict& verdict;
};

struct RanksOptions {
  size_t top = 10;  // longest list; 0 = all
  bool by_step = false;
};

// Why the answer may be of a part only: missing, damaged, foreign traces.
std::vector<std::string> RanksDoubts(const RanksReport& report);

// Doubts first, then who ran out of memory and who stopped, then who holds more and why.
std::string RanksHeadline(const RanksReport& report);

// "rank 3 holds 96 MiB (24 %) more than rank 1, the median rank".
std::string DeviationText(const Deviation& deviation, const RanksVerdict& verdict);
// "activations of layers.*.mlp, 32 x 96 MiB -> 32 x 192 MiB", or that it is not known.
std::string RankCauseText(const Deviation& deviation);
// "at step 3", "at the peak".
std::string MomentText(const RanksVerdict& verdict);

// What `report` refers to outlives the answer.
Document RanksAnswer(const RanksReport& report, const RanksOptions& options);
// Its head: the job, the balance, and what is unlike; for machines alone.
void AddRanksFields(const RanksReport& report, Document* answer);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_RANKS_RANKS_REPORT_H_
