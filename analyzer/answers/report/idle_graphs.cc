// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/idle_graphs.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace gpumem {
namespace {

constexpr size_t kLeastBlocks = 4;  // of a graph
constexpr size_t kLeastInARow = 3;

// Blocks that end one after the other: [from, to) of the blocks by their end.
struct Graph {
  size_t from = 0, to = 0;
  uint64_t first_born = UINT64_MAX, last_born = 0;
  uint64_t first_end = 0, last_end = 0;
};

Graph GraphOf(const std::vector<LifeSpan>& by_end, size_t from, size_t to) {
  Graph graph{from, to, UINT64_MAX, 0, by_end[from].end, by_end[to - 1].end};
  for (size_t i = from; i < to; ++i) {
    graph.first_born = std::min(graph.first_born, by_end[i].born);
    graph.last_born = std::max(graph.last_born, by_end[i].born);
  }
  return graph;
}

// Nothing is saved between a graph's first end and its last. The last two of a loop may go without anything between
// them: what was saved since the graph before went is the last one, if it goes behind the other.
std::vector<Graph> GraphsOf(const std::vector<LifeSpan>& by_end) {
  std::vector<uint64_t> births;
  for (const LifeSpan& block : by_end) births.push_back(block.born);
  std::sort(births.begin(), births.end());
  const auto births_until = [&](uint64_t event) { return std::upper_bound(births.begin(), births.end(), event); };
  std::vector<Graph> graphs;
  for (size_t from = 0, to = 0; from < by_end.size(); from = to) {
    while (to < by_end.size() && births_until(by_end[from].end) == births_until(by_end[to].end)) ++to;
    const uint64_t before = graphs.empty() ? UINT64_MAX : graphs.back().last_end;
    const auto is_old = [&](const LifeSpan& block) { return block.born <= before; };
    const auto begin = by_end.begin() + static_cast<ptrdiff_t>(from), end = by_end.begin() + static_cast<ptrdiff_t>(to);
    const auto middle = std::find_if_not(begin, end, is_old);
    if (middle == begin || middle == end || std::any_of(middle, end, is_old)) {
      graphs.push_back(GraphOf(by_end, from, to));
      continue;
    }
    const auto split = static_cast<size_t>(middle - by_end.begin());
    graphs.push_back(GraphOf(by_end, from, split));
    graphs.push_back(GraphOf(by_end, split, to));
  }
  return graphs;
}

// A graph and the one that is made while it is there.
struct Pair {
  Graph graph, next;
};

std::vector<Pair> IdlePairs(const std::vector<Graph>& graphs, const std::vector<uint64_t>& backward_events) {
  const auto is_idle = [&](size_t i) {
    if (i + 1 >= graphs.size()) return false;
    const Graph &graph = graphs[i], &next = graphs[i + 1];
    if (i + 2 < graphs.size() && graphs[i + 2].first_born < graph.last_end) return false;  // not bound to the next one
    const auto backward = std::lower_bound(backward_events.begin(), backward_events.end(), graph.first_born);
    return graph.to - graph.from >= kLeastBlocks && graph.last_born < next.first_born &&
           graph.first_end > next.last_born && (backward == backward_events.end() || *backward >= graph.last_end);
  };
  std::vector<Pair> pairs;
  for (size_t i = 0; i < graphs.size(); ++i) {
    size_t end = i;
    while (is_idle(end)) ++end;
    for (size_t at = i; end - i >= kLeastInARow && at < end; ++at) pairs.push_back({graphs[at], graphs[at + 1]});
    i = end;
  }
  return pairs;
}

}  // namespace

std::vector<LifeSpan> IdleGraphs(std::vector<LifeSpan> saved, const std::vector<LifeSpan>& inputs,
                                 const std::vector<uint64_t>& backward_events) {
  std::sort(saved.begin(), saved.end(),
            [](const LifeSpan& a, const LifeSpan& b) { return a.end != b.end ? a.end < b.end : a.born < b.born; });
  const std::vector<Pair> pairs = IdlePairs(GraphsOf(saved), backward_events);
  if (pairs.empty()) return {};
  absl::flat_hash_map<uint64_t, const LifeSpan*> by_end;
  for (const LifeSpan& block : inputs) by_end[block.end] = &block;
  std::vector<LifeSpan> too_long;
  for (const auto& [graph, next] : pairs) {
    const auto add = [&, from = next.first_born](const LifeSpan& block) {
      if (block.born < from) too_long.push_back({from, block.end, block.size, block.stack});
    };
    for (size_t block = graph.from; block < graph.to; ++block) add(saved[block]);
    for (uint64_t event = graph.last_end + 1; by_end.contains(event); ++event) add(*by_end[event]);
    for (uint64_t event = graph.first_end - 1; by_end.contains(event); --event) add(*by_end[event]);
  }
  return too_long;
}

}  // namespace gpumem
