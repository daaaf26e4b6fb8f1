// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/views/stack_tree.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "absl/container/flat_hash_map.h"

namespace gpumem {

StackTree::StackTree(const AggregatedStacks& aggregated, FrameTable* frames, size_t most_nodes,
                     std::vector<StackEnd>* ends)
    : nodes_(1) {
  most_nodes = std::max<size_t>(most_nodes, 1);
  absl::flat_hash_map<uint64_t, uint32_t> index;  // by parent and frame
  for (const AggregatedStack& stack : aggregated.stacks) {
    uint32_t at = kRoot;
    bool whole = true;
    for (const uint32_t frame : frames->Resolve(stack)) {
      const uint64_t key = static_cast<uint64_t>(at) << 32 | frame;
      const auto found = index.find(key);
      if (found != index.end()) {
        at = found->second;
        continue;
      }
      if (nodes_.size() >= most_nodes) {
        whole = false;
        break;
      }
      const auto place = static_cast<uint32_t>(nodes_.size());
      index.emplace(key, place);
      Node node;
      node.frame = frame;
      node.parent = at;
      nodes_.push_back(node);
      at = place;
    }
    if (ends != nullptr) ends->push_back({at, whole});
    (whole ? nodes_[at].self : nodes_[at].merged).Add(stack.weight);
    if (whole) continue;
    ++merged_stacks_;
    merged_.Add(stack.weight);
  }
  if (aggregated.merged_is_shown()) {
    nodes_[kRoot].merged.Add(aggregated.merged);
    merged_.Add(aggregated.merged);
    merged_stacks_ += aggregated.merged_entries;
  }
  SumUp();
  SortChildren();
}

std::vector<uint32_t> StackTree::Path(uint32_t index) const {
  std::vector<uint32_t> frames;
  for (; index != kRoot; index = nodes_[index].parent) frames.push_back(nodes_[index].frame);
  std::reverse(frames.begin(), frames.end());
  return frames;
}

void StackTree::SumUp() {
  for (size_t i = nodes_.size(); i-- > 0;) {
    Node& node = nodes_[i];
    node.total.Add(node.self);
    node.total.Add(node.merged);
    if (i != kRoot) nodes_[node.parent].total.Add(node.total);
  }
}

void StackTree::SortChildren() {
  first_child_.assign(nodes_.size() + 1, 0);
  for (size_t i = 1; i < nodes_.size(); ++i) ++first_child_[nodes_[i].parent + 1];
  std::partial_sum(first_child_.begin(), first_child_.end(), first_child_.begin());
  children_.resize(nodes_.size() - 1);
  std::vector<uint32_t> next(first_child_.begin(), first_child_.end() - 1);
  for (uint32_t i = 1; i < nodes_.size(); ++i) children_[next[nodes_[i].parent]++] = i;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const auto begin = children_.begin();
    std::sort(begin + first_child_[i], begin + first_child_[i + 1], [&](uint32_t a, uint32_t b) {
      const Weight &x = nodes_[a].total, &y = nodes_[b].total;
      return std::tie(y.bytes, y.count, a) < std::tie(x.bytes, x.count, b);
    });
  }
}

}  // namespace gpumem
