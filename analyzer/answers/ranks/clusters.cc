// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/clusters.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace gpumem {
namespace {

std::vector<ValueCluster> CutAtGaps(const std::vector<RankValue>& sorted, uint64_t tolerance) {
  std::vector<ValueCluster> clusters;
  for (const RankValue& value : sorted) {
    if (clusters.empty() || value.bytes - clusters.back().members.back().bytes > tolerance) clusters.emplace_back();
    clusters.back().members.push_back(value);
  }
  return clusters;
}

// Where several are equally large, as where all ranks differ, the one with the median says best what is usual.
ValueCluster* Largest(const RankValue& median, std::vector<ValueCluster>* clusters) {
  const auto has_median = [&](const ValueCluster& cluster) {
    return median.bytes >= cluster.members.front().bytes && median.bytes <= cluster.members.back().bytes;
  };
  return &*std::max_element(clusters->begin(), clusters->end(), [&](const ValueCluster& a, const ValueCluster& b) {
    return std::make_tuple(a.members.size(), has_median(a)) < std::make_tuple(b.members.size(), has_median(b));
  });
}

// Cuts off what is further than `tolerance` from the median of the largest cluster.
std::vector<ValueCluster> WithoutFarEnds(const ValueCluster& cluster, uint64_t tolerance) {
  const uint64_t median = cluster.median().bytes;
  std::vector<ValueCluster> parts(3);
  for (const RankValue& value : cluster.members) {
    const size_t part = value.bytes + tolerance < median ? 0 : value.bytes > median + tolerance ? 2 : 1;
    parts[part].members.push_back(value);
  }
  std::erase_if(parts, [](const ValueCluster& part) { return part.members.empty(); });
  return parts;
}

}  // namespace

void SortValues(std::vector<RankValue>* values) {
  std::sort(values->begin(), values->end(), [](const RankValue& a, const RankValue& b) {
    return std::tie(a.bytes, a.rank) < std::tie(b.bytes, b.rank);
  });
}

std::vector<ValueCluster> FindClusters(std::vector<RankValue> values, uint64_t tolerance) {
  if (values.empty()) return {};
  SortValues(&values);
  std::vector<ValueCluster> result;
  std::vector<ValueCluster> clusters = CutAtGaps(values, tolerance);
  for (const ValueCluster& cluster : clusters) {
    const std::vector<ValueCluster> parts = WithoutFarEnds(cluster, tolerance);
    result.insert(result.end(), parts.begin(), parts.end());
  }
  Largest(values[(values.size() - 1) / 2], &result)->is_main = true;
  return result;
}

}  // namespace gpumem
