// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// FindClusters: ranks that behave alike, from one number of each. Sorted values are cut where the next one is further
// away than `tolerance`; where values go on without such a gap, what lies further than that from the largest cluster's
// median is cut off too. Pure function of the set of values: their order has no influence.
//
//   FindClusters({{0, 100}, {1, 101}, {2, 131}}, /*tolerance=*/2)   // {0, 1}, main; {2}
//
// Thread-safe; never fails.

#ifndef GPUMEM_ANALYZER_ANSWERS_RANKS_CLUSTERS_H_
#define GPUMEM_ANALYZER_ANSWERS_RANKS_CLUSTERS_H_

#include <cstdint>
#include <vector>

namespace gpumem {

struct RankValue {
  int rank = -1;
  uint64_t bytes = 0;
};

struct ValueCluster {
  std::vector<RankValue> members;  // smallest value first, then by rank
  bool is_main = false;            // the largest one; of equally large ones that with the median, else the first

  const RankValue& median() const { return members[(members.size() - 1) / 2]; }  // the lower one of two
};

// By value; empty where there are no values.
std::vector<ValueCluster> FindClusters(std::vector<RankValue> values, uint64_t tolerance);

// Sorts by value, then by rank.
void SortValues(std::vector<RankValue>* values);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_RANKS_CLUSTERS_H_
