// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// StepEnds: of the steps that optimizers take, those that end a step of the training. Optimizers that take turns are
// parts of one training, whose steps are those of the first; optimizers that follow each other (folds, trials, stages,
// a resumed run) are trainings of their own, each of whose steps counts.
//
//   A B A B A B          A: 3 steps          a generator and its critic
//   A A A B B B          A and B: 6 steps    two folds
//   i i O j j O k k O    O: 3 steps          an optimizer of inner loops each time: those come between the steps of O
//
// Pure function.
//
//   StepEnds({7, 7, 9, 9})   // {true, true, true, true}

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_STEP_ENDS_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_STEP_ENDS_H_

#include <cstdint>
#include <vector>

namespace gpumem {

// `optimizers`: the number of each step's optimizer, in the order of their ends. One answer for each.
std::vector<bool> StepEnds(const std::vector<uint32_t>& optimizers);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_STEP_ENDS_H_
