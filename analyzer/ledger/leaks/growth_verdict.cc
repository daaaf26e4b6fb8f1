// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/leaks/growth_verdict.h"

#include <algorithm>
#include <cmath>

#include "base/mann_kendall.h"

namespace gpumem {
namespace {

constexpr size_t kMaxWindows = 16;
// Of all rises, this much may be taken back by falls: more is a series that goes up and down.
constexpr double kMaxFallen = 0.25;
// What still grows has in its last third at least this share of its growth, where even growth would have a third.
constexpr double kLeastLateShare = 0.12;
constexpr double kLeastConfidence = 0.95;
constexpr size_t kMaxRisesOnce = 2;

// The lowest value of each of up to kMaxWindows equal stretches.
std::vector<int64_t> LowsOf(const std::vector<int64_t>& values) {
  const size_t count = std::min(kMaxWindows, values.size());
  std::vector<int64_t> lows;
  for (size_t i = 0; i < count; ++i) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i * values.size() / count);
    const auto end = values.begin() + static_cast<std::ptrdiff_t>((i + 1) * values.size() / count);
    lows.push_back(*std::min_element(begin, end));
  }
  return lows;
}

// What never falls below itself again: the lowest of all later values.
std::vector<int64_t> KeptOf(const std::vector<int64_t>& values) {
  std::vector<int64_t> kept = values;
  for (size_t i = kept.size() - 1; i-- > 0;) kept[i] = std::min(kept[i], kept[i + 1]);
  return kept;
}

bool ComesAndGoes(const std::vector<int64_t>& lows) {
  double up = 0, down = 0;
  for (size_t i = 1; i < lows.size(); ++i) {
    const auto change = static_cast<double>(lows[i] - lows[i - 1]);
    (change > 0 ? up : down) += std::abs(change);
  }
  return down > up * kMaxFallen;
}

}  // namespace

absl::string_view LeakStatusName(LeakStatus status) {
  static constexpr absl::string_view kNames[] = {"flat", "expected", "once", "freed", "stopped", "growing"};
  return kNames[static_cast<size_t>(status)];
}

GrowthVerdict JudgeGrowth(const std::vector<int64_t>& values) {
  GrowthVerdict verdict;
  if (values.size() < kLeastValues) return verdict;
  const std::vector<int64_t> lows = LowsOf(values);
  const std::vector<int64_t> kept = KeptOf(values);
  verdict.grown = kept.back() - kept.front();
  if (verdict.grown <= 0 || ComesAndGoes(lows)) return verdict;
  size_t last_rise = 0;
  for (size_t i = 1; i < kept.size(); ++i) {
    if (kept[i] == kept[i - 1]) continue;
    if (verdict.rises++ == 0) verdict.first_rise = i;
    if (verdict.rises > 1) verdict.longest_gap = std::max(verdict.longest_gap, i - last_rise);
    last_rise = i;
  }
  verdict.confidence = RisingConfidence({lows.begin(), lows.end()});
  // As long as the rises go on, and as long again as from one to the next: the first one has taken that, too.
  const auto between = static_cast<double>(last_rise - verdict.first_rise);
  const double gap = verdict.rises > 1 ? between / static_cast<double>(verdict.rises - 1) : 1;
  verdict.bytes_per_iteration = static_cast<double>(verdict.grown) / (between + gap);
  if (verdict.rises <= kMaxRisesOnce) {
    verdict.status = LeakStatus::kOnce;
    return verdict;
  }
  // One collection of garbage at the beginning does not make the rate smaller.
  const size_t middle = (verdict.first_rise - 1 + last_rise) / 2;
  if (2 * verdict.rises >= last_rise - verdict.first_rise)
    verdict.bytes_per_iteration =
        static_cast<double>(kept[last_rise] - kept[middle]) / static_cast<double>(last_rise - middle);
  const size_t since_last = kept.size() - 1 - last_rise;
  const auto late = static_cast<double>(kept.back() - kept[kept.size() * 2 / 3]);
  const bool goes_on =
      since_last <= 2 * verdict.longest_gap && late >= kLeastLateShare * static_cast<double>(verdict.grown);
  verdict.status = goes_on && verdict.confidence >= kLeastConfidence ? LeakStatus::kGrowing : LeakStatus::kStopped;
  return verdict;
}

}  // namespace gpumem
