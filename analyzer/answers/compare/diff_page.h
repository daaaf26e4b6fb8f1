// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A Diff as text and as JSON (docs/json.md). Pure functions; nothing is escaped, pages and JSON writers do that.
//
//   AddDiff(diff, 10, &page);
//   console->Print(DiffJson(diff, 0));

#ifndef GPUMEM_ANALYZER_ANSWERS_COMPARE_DIFF_PAGE_H_
#define GPUMEM_ANALYZER_ANSWERS_COMPARE_DIFF_PAGE_H_

#include <string>

#include "answers/compare/diff.h"
#include "render/page.h"

namespace gpumem {

// `top`: of each list, 0 = all. `by_stack`: stacks too.
void AddDiff(const Diff& diff, size_t top, bool by_stack, Page* page);
std::string DiffJson(const Diff& diff, size_t top);

// "+3.10 GiB", "-12 KiB", "=".
std::string SignedBytes(int64_t bytes);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_COMPARE_DIFF_PAGE_H_
