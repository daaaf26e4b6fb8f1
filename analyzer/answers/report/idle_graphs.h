// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Graphs of autograd that no backward pass runs through and that are alive while the next one is made: a variable holds
// the last result until it is bound to the next one, as in a validation without torch.no_grad().
//
//   made   |--- 1 ---|--- 2 ---|--- 3 ---|
//   freed                      1         2        graph 1 is there while all of graph 2 is made
//
// A value that the next call needs may be part of a graph, but never all that was saved for its backward pass: only
// graphs of several blocks count, which go as a whole, several of them in a row. Pure functions.
//
//   for (const LifeSpan& too_long : IdleGraphs(saved, inputs, backward_events)) ...   // from where the next one begins

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_IDLE_GRAPHS_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_IDLE_GRAPHS_H_

#include <cstdint>
#include <vector>

#include "answers/report/spare_results.h"

namespace gpumem {

// `saved`: what autograd kept for a backward pass; `inputs`: of which that is not known; they go with a graph where
// they end right before or after it. `backward_events`: events of backward passes, ascending. Returns the part of each
// life that is not needed.
std::vector<LifeSpan> IdleGraphs(std::vector<LifeSpan> saved, const std::vector<LifeSpan>& inputs,
                                 const std::vector<uint64_t>& backward_events);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_IDLE_GRAPHS_H_
