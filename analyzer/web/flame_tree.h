// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// FlameTree: several views of one trace over one tree of frames, small enough for a page. A StackTree decides which
// nodes there are, by each stack's largest share of any view, so that what is large in one view alone is kept too.
//
//   FlameTree tree({&peak, &leaks, &total, &temporary}, &frames, 100'000);
//   tree.views()[0].rows       the peak: bytes by node, device and thread
//
// Where the tree is full, the rest of a stack becomes one node of the frame kMerged below the deepest node that it
// shares with larger ones: nothing is left out of a sum. Rows are bounded too: where there are too many, threads are no
// longer told apart. Plain values.

#ifndef GPUMEM_ANALYZER_WEB_FLAME_TREE_H_
#define GPUMEM_ANALYZER_WEB_FLAME_TREE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "answers/views/frame_table.h"
#include "ledger/stacks/aggregated_stacks.h"

namespace gpumem {

struct FlameNode {
  uint32_t parent = 0;
  uint32_t frame = 0;  // FrameTable::frame, or FlameTree::kMerged
};

struct FlameRow {
  uint32_t node = 0;
  int device = 0;       // FlameTree::kNoDevice: merged before it was kept by device
  uint32_t thread = 0;  // 0 = not known, or not told apart
  Weight weight;
};

struct FlameView {
  std::vector<FlameRow> rows;  // by node, device, thread; each combination once
  Weight all;                  // the rows' sum
  Weight merged;               // of it, in nodes of the frame kMerged
  uint64_t merged_stacks = 0;
};

class FlameTree {
 public:
  static constexpr uint32_t kMerged = UINT32_MAX;
  static constexpr int kNoDevice = INT32_MIN;

  // Views as FilterStacks left them. At most `most_nodes` nodes, and as many again of the frame kMerged.
  FlameTree(absl::Span<const AggregatedStacks* const> views, FrameTable* frames, size_t most_nodes);

  const std::vector<FlameNode>& nodes() const { return nodes_; }  // parents before children; 0 is the root
  const std::vector<FlameView>& views() const { return views_; }  // in the order of the constructor's
  bool threads_apart() const { return threads_apart_; }

 private:
  struct Entry;

  uint32_t MergedBelow(uint32_t node);
  void Place(const AggregatedStack& stack, uint32_t node, bool whole, FlameView* view);
  void SortRows(FlameView* view);
  void ForgetThreads();

  std::vector<FlameNode> nodes_;
  std::vector<uint32_t> merged_below_;  // node -> its child kMerged; 0 = none
  std::vector<FlameView> views_;
  bool threads_apart_ = true;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_WEB_FLAME_TREE_H_
