// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/aligned.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"

namespace gpumem {

AlignedSteps::AlignedSteps(const std::vector<RankSummary>& ranks, Measure measure) : measure_(measure) {
  for (const RankSummary& rank : ranks) {
    width_ = std::max(width_, rank.steps.width());
    rows_.push_back({rank.rank, rank.steps});
  }
  for (Row& row : rows_) row.steps.CoarsenTo(width_);
  FindCommon(ranks);
}

void AlignedSteps::FindCommon(const std::vector<RankSummary>& ranks) {
  std::vector<uint64_t> completed;
  for (const RankSummary& rank : ranks) completed.push_back(rank.steps.complete());
  if (completed.empty()) return;
  std::sort(completed.begin(), completed.end());
  const uint64_t median = completed[completed.size() / 2];
  if (median == 0) return;
  std::map<uint64_t, size_t> counts;
  size_t taken = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (!ranks[i].damage.empty() || ranks[i].steps.complete() * 2 < median) continue;
    ++taken;
    for (const auto& [window, peak] : rows_[i].steps.windows()) ++counts[window];
  }
  for (const auto& [window, count] : counts) {
    if (count == taken) common_.push_back(window);
  }
}

std::vector<uint64_t> AlignedSteps::All() const {
  std::set<uint64_t> all;
  for (const Row& row : rows_) {
    for (const auto& [window, peak] : row.steps.windows()) all.insert(window);
  }
  return {all.begin(), all.end()};
}

std::vector<RankValue> AlignedSteps::In(uint64_t window) const {
  std::vector<RankValue> values;
  for (const Row& row : rows_) {
    if (const StepPeak* const peak = row.steps.InWindow(window)) values.push_back({row.rank, Of(*peak)});
  }
  SortValues(&values);
  return values;
}

uint64_t AlignedSteps::Highest(const std::vector<uint64_t>& windows) const {
  uint64_t best = windows.front(), most = 0;
  for (const uint64_t window : windows) {
    const uint64_t here = In(window).back().bytes;
    if (here < most) continue;  // of equal ones the last: the first steps are seldom like the others
    best = window;
    most = here;
  }
  return best;
}

std::string AlignedSteps::MomentOf(int rank, uint64_t window) const {
  for (const Row& row : rows_) {
    const StepPeak* const peak = row.rank == rank ? row.steps.InWindow(window) : nullptr;
    if (peak != nullptr) return absl::StrCat("step ", peak->step);
  }
  return "peak";
}

}  // namespace gpumem
