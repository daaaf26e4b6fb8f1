// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Runs side by side: the answer of `gpumemshim diff --table`. Pure functions.
//
//   SortRuns("allocated", &runs);
//   console->Print(ToText(CompareAnswer(runs), console->out_style()));

#ifndef GPUMEM_ANALYZER_ANSWERS_COMPARE_RUN_TABLE_H_
#define GPUMEM_ANALYZER_ANSWERS_COMPARE_RUN_TABLE_H_

#include <string>
#include <vector>

#include "answers/compare/run_facts.h"
#include "render/document.h"

namespace gpumem {

// "allocated", "reserved", "total": smallest first; anything else: as they are.
void SortRuns(const std::string& by, std::vector<RunFacts>* runs);

// The best of a column: index of the smallest of those runs that completed and lost nothing; -1 where there is none, or
// all are equal.
int BestRun(const std::vector<RunFacts>& runs, uint64_t RunFacts::*value);

// `runs` outlive it.
Document CompareAnswer(const std::vector<RunFacts>& runs);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_COMPARE_RUN_TABLE_H_
