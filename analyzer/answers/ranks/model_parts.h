// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PartsOfModel: which ranks hold the same part of the model, by the names of their parameters. Ranks of data and tensor
// parallel jobs all hold the same names: one part. Stages of a pipeline and experts do not: they differ by design.
//
//   rank 0  embedding, layers.0, layers.1   part 0        a rank with one layer more, among others with the same
//   rank 1  layers.2, layers.3              part 1        names and that one, is not a part of its own: it is an
//   outlier
//
// Pure function, thread-safe; never fails. Ranks of which no parameters are known are in part 0.

#ifndef GPUMEM_ANALYZER_ANSWERS_RANKS_MODEL_PARTS_H_
#define GPUMEM_ANALYZER_ANSWERS_RANKS_MODEL_PARTS_H_

#include <cstddef>
#include <vector>

#include "answers/ranks/rank_summary.h"

namespace gpumem {

// One number for each rank, from 0; by parameters, and by stage (pp) and expert group (ep) where every rank's are
// known; numbers rise in the order in which parts appear.
std::vector<size_t> PartsOfModel(const std::vector<RankSummary>& ranks);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_RANKS_MODEL_PARTS_H_
