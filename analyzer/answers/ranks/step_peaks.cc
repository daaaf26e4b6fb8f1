// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/step_peaks.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace gpumem {

void StepPeaks::Merge(uint64_t window, const StepPeak& peak) {
  const auto [it, is_new] = windows_.try_emplace(window, peak);
  if (!is_new && Of(peak) > Of(it->second)) it->second = peak;
}

void StepPeaks::Add(const StepPeak& peak, bool complete) {
  last_begun_ = std::max(last_begun_, peak.step);
  if (!complete) return;
  last_ended_ = std::max(last_ended_, peak.step);
  ++complete_;
  Merge(peak.step / width_, peak);
  if (windows_.size() > kMaxWindows) CoarsenTo(width_ * 2);
}

void StepPeaks::CoarsenTo(uint64_t width) {
  if (width <= width_) return;
  const auto before = std::exchange(windows_, {});
  const uint64_t ratio = width / width_;
  width_ = width;
  for (const auto& [window, peak] : before) Merge(window / ratio, peak);
}

void StepPeaks::MergeLater(const StepPeaks& later, uint64_t before, uint64_t known) {
  for (const auto& [window, peak] : later.windows_) {
    const uint64_t step = peak.step + before;
    if (step > known) Add({step, peak.allocated, peak.total}, true);
  }
  if (later.last_begun_ != 0) last_begun_ = std::max(last_begun_, later.last_begun_ + before);
  if (later.last_ended_ == 0) return;
  last_ended_ = std::max(last_ended_, later.last_ended_ + before);
  complete_ = std::max(complete_, later.complete_ + before);
}

bool StepPeaks::Restore(const Totals& totals, const std::vector<StepPeak>& peaks) {
  if (!std::has_single_bit(totals.width) || peaks.size() > kMaxWindows + 1) return false;
  width_ = totals.width;
  complete_ = totals.complete;
  last_begun_ = totals.last_begun;
  last_ended_ = totals.last_ended;
  windows_.clear();
  for (const StepPeak& peak : peaks) Merge(peak.step / width_, peak);
  return true;
}

const StepPeak* StepPeaks::InWindow(uint64_t window) const {
  const auto found = windows_.find(window);
  return found == windows_.end() ? nullptr : &found->second;
}

}  // namespace gpumem
