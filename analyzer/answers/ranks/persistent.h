// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PersistentDeviations: which ranks hold more or less than the others step after step, not in single steps. A step in
// which a rank is unlike the others is often nothing but the moment at which a thread of NCCL let go of a buffer.
//
//   PersistentDeviations lasting(aligned, parts);
//   lasting.DirectionOf(3)    // +1: more in most of the later half of the common steps
//   lasting.StrongestWindow() // where any of these ranks is furthest from its part's median
//
// Immutable; thread-safe.

#ifndef GPUMEM_ANALYZER_ANSWERS_RANKS_PERSISTENT_H_
#define GPUMEM_ANALYZER_ANSWERS_RANKS_PERSISTENT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "answers/ranks/aligned.h"
#include "answers/ranks/clusters.h"

namespace gpumem {

using PartOfRank = std::map<int, size_t>;

// What counts as equally much as the median of `values`, which are sorted.
uint64_t EqualWithin(const std::vector<RankValue>& values);

// The median, and the lower one of two in the middle. `sorted` is not empty.
const RankValue& MedianOf(const std::vector<RankValue>& sorted);

class PersistentDeviations {
 public:
  PersistentDeviations(const AlignedSteps& aligned, const PartOfRank& parts);

  // The later half of the common windows: what is set up in the first steps is over there.
  const std::vector<uint64_t>& windows() const { return windows_; }
  // +1 more, -1 less, 0 neither.
  int DirectionOf(int rank) const;
  bool any() const { return !directions_.empty(); }
  uint64_t StrongestWindow() const { return strongest_; }

 private:
  std::vector<uint64_t> windows_;
  std::map<int, int> directions_;
  uint64_t strongest_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_RANKS_PERSISTENT_H_
