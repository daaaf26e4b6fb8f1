// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The one sentence of a Diff: how much, where, and by what; doubts first. Pure function.
//
//   WriteHeadline(&diff);   // diff.headline, diff.doubts

#ifndef GPUMEM_ANALYZER_ANSWERS_COMPARE_HEADLINE_H_
#define GPUMEM_ANALYZER_ANSWERS_COMPARE_HEADLINE_H_

#include "answers/compare/diff.h"

namespace gpumem {

void WriteHeadline(Diff* diff);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_COMPARE_HEADLINE_H_
