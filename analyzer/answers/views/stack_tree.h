// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// StackTree: stacks merged where they begin alike: what a call tree, a flame graph and an icicle are drawn from.
// Bounded: where there are more nodes than allowed the smallest stacks end at the deepest node that they share with
// larger ones, as its `merged`. Not thread-safe.
//
//      main ── forward ─┬─ linear   self 10
//      total 17         ├─ relu     self  5
//                       └─ (merged       2)
//
//   StackTree tree(aggregated, &frames);
//   for (const uint32_t child : tree.Children(StackTree::kRoot)) Print(tree.node(child).total.bytes);
//
// Invariant: total = self + merged + the totals of the children; the root's total is AggregatedStacks::shown.

#ifndef GPUMEM_ANALYZER_ANSWERS_VIEWS_STACK_TREE_H_
#define GPUMEM_ANALYZER_ANSWERS_VIEWS_STACK_TREE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "answers/views/frame_table.h"
#include "ledger/stacks/aggregated_stacks.h"

namespace gpumem {

// Where a stack of AggregatedStacks::stacks went.
struct StackEnd {
  uint32_t node = 0;
  bool whole = true;  // false: it goes on below the node, but not as nodes
};

class StackTree {
 public:
  static constexpr uint32_t kRoot = 0;  // stands for all; has no frame
  static constexpr size_t kMaxNodes = size_t{1} << 20;

  struct Node {
    uint32_t frame = 0;  // FrameTable::frame
    uint32_t parent = kRoot;
    Weight self;    // of stacks that end here
    Weight merged;  // of stacks that go on, but not as nodes
    Weight total;
  };

  // Takes aggregated.stacks as FilterStacks left them, the largest first, and aggregated.merged. `ends`, where not
  // null, receives an entry for each of the stacks.
  StackTree(const AggregatedStacks& aggregated, FrameTable* frames, size_t most_nodes = kMaxNodes,
            std::vector<StackEnd>* ends = nullptr);

  const Node& node(uint32_t index) const { return nodes_[index]; }
  size_t size() const { return nodes_.size(); }
  // By total bytes, then count, most first.
  absl::Span<const uint32_t> Children(uint32_t index) const {
    return absl::MakeConstSpan(children_).subspan(first_child_[index], first_child_[index + 1] - first_child_[index]);
  }

  // The frames from the root's child down to this node.
  std::vector<uint32_t> Path(uint32_t index) const;

  // Stacks that ended early, and everything in them; aggregated.merged included. 0 where the tree is whole.
  uint64_t merged_stacks() const { return merged_stacks_; }
  const Weight& merged() const { return merged_; }

 private:
  void SumUp();
  void SortChildren();

  std::vector<Node> nodes_;  // parents before children
  std::vector<uint32_t> children_, first_child_;
  uint64_t merged_stacks_ = 0;
  Weight merged_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_VIEWS_STACK_TREE_H_
