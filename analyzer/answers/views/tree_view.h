// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A StackTree as an answer. Pure functions; what they are given outlives it.
//
//      bytes   share    count
//     20 MiB   100 %        9  train.py:9 <module>
//     12 MiB    60 %        1  ├ model.py:42 Block.forward > torch/nn/modules/linear.py:134 Linear.forward
//      8 MiB    40 %        8  └ train.py:7 remember

#ifndef GPUMEM_ANALYZER_ANSWERS_VIEWS_TREE_VIEW_H_
#define GPUMEM_ANALYZER_ANSWERS_VIEWS_TREE_VIEW_H_

#include "answers/views/stack_tree.h"
#include "answers/views/view_input.h"
#include "render/document.h"

namespace gpumem {

struct TreeOptions {
  double percent_limit =
      1;  // nodes with a smaller share of all bytes are one line together, or none where that is as small
  bool collapse = true;   // a node with one child and nothing of its own shares that child's line
  bool by_count = false;  // shares and limit are of the number of allocations
};

// Machines get every node of at least `least_percent_listed` of all bytes, each after its parent; nothing is collapsed.
Document TreeAnswer(const StackTree& tree, const ViewInput& input, const TreeOptions& options,
                    double least_percent_listed);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_VIEWS_TREE_VIEW_H_
