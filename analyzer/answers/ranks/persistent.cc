// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/persistent.h"

#include <algorithm>

namespace gpumem {
namespace {

constexpr double kEqual = 0.02;

struct Counts {
  size_t more = 0, less = 0;
};

// Calls found(rank, bytes beyond its part's median) for each rank in a cluster that is not the main one.
template <typename Found>
void ForEachUnlike(const std::vector<RankValue>& values, const PartOfRank& parts, const Found& found) {
  std::map<size_t, std::vector<RankValue>> by_part;
  for (const RankValue& value : values) by_part[parts.at(value.rank)].push_back(value);
  for (const auto& [part, of_part] : by_part) {
    const std::vector<ValueCluster> clusters = FindClusters(of_part, EqualWithin(of_part));
    const auto main = std::find_if(clusters.begin(), clusters.end(), [](const auto& each) { return each.is_main; });
    for (const ValueCluster& cluster : clusters) {
      if (cluster.is_main) continue;
      for (const RankValue& value : cluster.members)
        found(value.rank, static_cast<int64_t>(value.bytes) - static_cast<int64_t>(main->median().bytes));
    }
  }
}

}  // namespace

uint64_t EqualWithin(const std::vector<RankValue>& values) {
  return static_cast<uint64_t>(kEqual * static_cast<double>(MedianOf(values).bytes));
}

const RankValue& MedianOf(const std::vector<RankValue>& sorted) { return sorted[(sorted.size() - 1) / 2]; }

PersistentDeviations::PersistentDeviations(const AlignedSteps& aligned, const PartOfRank& parts) {
  const std::vector<uint64_t>& common = aligned.common();
  windows_.assign(common.begin() + static_cast<std::ptrdiff_t>(common.size() / 2), common.end());
  std::map<int, Counts> counts;
  for (const uint64_t window : windows_) {
    ForEachUnlike(aligned.In(window), parts,
                  [&](int rank, int64_t delta) { delta > 0 ? ++counts[rank].more : ++counts[rank].less; });
  }
  for (const auto& [rank, count] : counts) {
    if (count.more * 2 > windows_.size()) directions_[rank] = 1;
    if (count.less * 2 > windows_.size()) directions_[rank] = -1;
  }
  int64_t most = 0;
  for (const uint64_t window : windows_) {
    ForEachUnlike(aligned.In(window), parts, [&](int rank, int64_t delta) {
      const int64_t there = delta * DirectionOf(rank);
      if (there < most || there <= 0) return;
      most = there;
      strongest_ = window;
    });
  }
}

int PersistentDeviations::DirectionOf(int rank) const {
  const auto found = directions_.find(rank);
  return found == directions_.end() ? 0 : found->second;
}

}  // namespace gpumem
