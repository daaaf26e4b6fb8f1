// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "web/flame_tree.h"

#include <algorithm>
#include <tuple>

#include "answers/views/stack_tree.h"

namespace gpumem {
namespace {

// Rows of all views together, for each node that is allowed: more makes a page of hundreds of megabytes.
constexpr size_t kRowsPerNode = 8;

// Largest share that a stack can have of a view, so that the views can be compared.
constexpr double kWholeView = 1e15;

uint64_t ShareOfStack(const AggregatedStack& stack, const AggregatedStacks& view) {
  if (view.shown.bytes == 0) return 0;
  return static_cast<uint64_t>(kWholeView * static_cast<double>(stack.weight.bytes) /
                               static_cast<double>(view.shown.bytes));
}

auto RowKey(const FlameRow& row) { return std::tie(row.node, row.device, row.thread); }

}  // namespace

// Where a stack of all views together comes from.
struct FlameTree::Entry {
  uint32_t view = 0, place = 0;
  uint64_t share = 0;
};

FlameTree::FlameTree(absl::Span<const AggregatedStacks* const> views, FrameTable* frames, size_t most_nodes)
    : views_(views.size()) {
  std::vector<Entry> entries;
  for (size_t view = 0; view < views.size(); ++view) {
    for (size_t i = 0; i < views[view]->stacks.size(); ++i) {
      entries.push_back(
          {static_cast<uint32_t>(view), static_cast<uint32_t>(i), ShareOfStack(views[view]->stacks[i], *views[view])});
    }
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.share > b.share; });
  AggregatedStacks together;
  together.stacks.reserve(entries.size());
  for (const Entry& entry : entries) {
    together.stacks.push_back(views[entry.view]->stacks[entry.place]);
    together.stacks.back().weight = {entry.share, 1};
  }
  std::vector<StackEnd> ends;
  const StackTree tree(together, frames, most_nodes, &ends);
  nodes_.reserve(tree.size());
  for (uint32_t i = 0; i < tree.size(); ++i) nodes_.push_back({tree.node(i).parent, tree.node(i).frame});
  merged_below_.resize(tree.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    Place(views[entry.view]->stacks[entry.place], ends[i].node, ends[i].whole, &views_[entry.view]);
  }
  size_t rows = 0;
  for (size_t view = 0; view < views.size(); ++view) {
    const AggregatedStacks& aggregated = *views[view];
    if (aggregated.merged_entries > 0 && aggregated.shown == aggregated.all) {
      AggregatedStack rest;
      rest.device = kNoDevice;
      rest.weight = aggregated.merged;
      Place(rest, StackTree::kRoot, false, &views_[view]);
      views_[view].merged_stacks += aggregated.merged_entries - 1;
    }
    SortRows(&views_[view]);
    rows += views_[view].rows.size();
  }
  if (rows > kRowsPerNode * std::max<size_t>(most_nodes, 1024)) ForgetThreads();
}

uint32_t FlameTree::MergedBelow(uint32_t node) {
  if (merged_below_[node] == 0) {
    merged_below_[node] = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back({node, kMerged});
  }
  return merged_below_[node];
}

void FlameTree::Place(const AggregatedStack& stack, uint32_t node, bool whole, FlameView* view) {
  view->all.Add(stack.weight);
  if (!whole) {
    view->merged.Add(stack.weight);
    ++view->merged_stacks;
    node = MergedBelow(node);
  }
  view->rows.push_back({node, stack.device, stack.thread, stack.weight});
}

void FlameTree::SortRows(FlameView* view) {
  std::vector<FlameRow>& rows = view->rows;
  std::sort(rows.begin(), rows.end(), [](const FlameRow& a, const FlameRow& b) { return RowKey(a) < RowKey(b); });
  size_t kept = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (kept > 0 && RowKey(rows[kept - 1]) == RowKey(rows[i])) {
      rows[kept - 1].weight.Add(rows[i].weight);
    } else {
      rows[kept++] = rows[i];
    }
  }
  rows.resize(kept);
}

void FlameTree::ForgetThreads() {
  threads_apart_ = false;
  for (FlameView& view : views_) {
    for (FlameRow& row : view.rows) row.thread = 0;
    SortRows(&view);
  }
}

}  // namespace gpumem
