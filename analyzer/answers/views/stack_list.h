// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The stacks of a StackTree one by one: as a table, as JSON, and collapsed to a line each. Stacks whose shown frames
// are equal are one. What the tree had no room for is "(smaller stacks)". Pure functions.

#ifndef GPUMEM_ANALYZER_ANSWERS_VIEWS_STACK_LIST_H_
#define GPUMEM_ANALYZER_ANSWERS_VIEWS_STACK_LIST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "answers/views/stack_tree.h"
#include "answers/views/view_input.h"
#include "base/text_sink.h"
#include "render/document.h"

namespace gpumem {

struct StackRow {
  uint32_t node = StackTree::kRoot;  // where the stack ends; kRoot: all that was merged
  Weight weight;
};

// Largest first, by bytes or by count.
std::vector<StackRow> StackRows(const StackTree& tree, bool by_count);

// `top` bounds the list; 0 = all. What it is given outlives the answer.
Document StacksAnswer(const StackTree& tree, const std::vector<StackRow>& rows, size_t top, const ViewInput& input);

// "main;step;forward 1024\n": outermost frame first, the weight being bytes, or allocations where `by_count`: what
// flamegraph.pl, speedscope and others read. In names ';' becomes ':' and what is no printable text is escaped. In the
// order of the tree.
void WriteCollapsedStacks(const StackTree& tree, const FrameTable& frames, bool by_count, const TextSink& sink);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_VIEWS_STACK_LIST_H_
