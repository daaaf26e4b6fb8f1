// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// AlignedSteps: the steps of all ranks of a job side by side, in windows of one width. Not thread-safe; never fails.
//
//   const AlignedSteps aligned(job.ranks, Measure::kAllocated);
//   for (const uint64_t window : aligned.common()) aligned.In(window)

#ifndef GPUMEM_ANALYZER_ANSWERS_RANKS_ALIGNED_H_
#define GPUMEM_ANALYZER_ANSWERS_RANKS_ALIGNED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "answers/ranks/clusters.h"
#include "answers/ranks/rank_summary.h"

namespace gpumem {

class AlignedSteps {
 public:
  AlignedSteps(const std::vector<RankSummary>& ranks, Measure measure);

  uint64_t width() const { return width_; }
  // Windows that every rank completed, ascending; ranks that are damaged or stopped long before most did do not count.
  const std::vector<uint64_t>& common() const { return common_; }
  // All windows that any rank completed, ascending.
  std::vector<uint64_t> All() const;
  // The values of the ranks that completed the window, smallest first.
  std::vector<RankValue> In(uint64_t window) const;
  // That of `windows` with the highest value, of equal ones the last; there must be one, and each must be known.
  uint64_t Highest(const std::vector<uint64_t>& windows) const;
  // The step of the rank's value in the window, as moments are named: "step 12".
  std::string MomentOf(int rank, uint64_t window) const;

 private:
  struct Row {
    int rank = -1;
    StepPeaks steps;
  };
  void FindCommon(const std::vector<RankSummary>& ranks);
  uint64_t Of(const StepPeak& peak) const { return measure_ == Measure::kAllocated ? peak.allocated : peak.total; }

  Measure measure_;
  uint64_t width_ = 1;
  std::vector<Row> rows_;
  std::vector<uint64_t> common_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_RANKS_ALIGNED_H_
