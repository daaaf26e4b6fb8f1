// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The answer of `gpumemshim diff`. Pure functions; `diff` outlives the answer.
//
//   console->Print(ToText(DiffAnswer(diff, 10, false), console->out_style()));

#ifndef GPUMEM_ANALYZER_ANSWERS_COMPARE_DIFF_ANSWER_H_
#define GPUMEM_ANALYZER_ANSWERS_COMPARE_DIFF_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "answers/compare/diff.h"
#include "render/document.h"

namespace gpumem {

// `top`: of each list, 0 = all. `by_stack`: people get stacks, too.
Document DiffAnswer(const Diff& diff, size_t top, bool by_stack);

// "+3.10 GiB", "-12 KiB", "=".
std::string SignedBytes(int64_t bytes);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_COMPARE_DIFF_ANSWER_H_
