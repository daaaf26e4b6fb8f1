// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/outlook/phase.h"

#include <algorithm>
#include <array>
#include <functional>

namespace gpumem {
namespace {

constexpr double kFew = 0.01;        // of the level: smaller ups and downs are steady
constexpr double kDeep = 0.5;        // of the range of levels: a fall that belongs to a saw
constexpr size_t kTeeth = 2;         // of a saw
constexpr size_t kSlower = 4;        // times as long as its fall takes the rise of a tooth
constexpr double kSteepShare = 0.8;  // of a staircase's growth, in
constexpr double kSteepSteps = 0.1;  // so many of its steps

// Falls of half of the range, and a rise as large after each. A spike is a rise and a fall of a few steps.
size_t TeethOf(const std::vector<double>& levels, size_t begin, double range) {
  size_t teeth = 0, top_at = begin, bottom_at = begin;
  double top = levels[begin], bottom = levels[begin];
  bool falls = false;
  for (size_t i = begin; i < levels.size(); ++i) {
    const double level = levels[i];
    if (!falls && level >= top) top = level, top_at = i;
    if (falls && level <= bottom) bottom = level, bottom_at = i;
    if (!falls && top - level >= kDeep * range) {
      if (top_at - bottom_at > kSlower * (i - top_at)) ++teeth;
      falls = true, bottom = level, bottom_at = i;
    } else if (falls && level - bottom >= kDeep * range) {
      falls = false, top = level, top_at = i;
    }
  }
  return teeth;
}

bool GrowsByJumps(const std::vector<double>& levels, size_t begin) {
  std::vector<double> rises;
  for (size_t i = begin + 1; i < levels.size(); ++i) rises.push_back(levels[i] - levels[i - 1]);
  const double grown = levels.back() - levels[begin];
  const size_t steep = std::max<size_t>(1, static_cast<size_t>(kSteepSteps * static_cast<double>(rises.size())));
  if (grown <= 0 || rises.size() < steep) return false;
  std::nth_element(rises.begin(), rises.begin() + static_cast<std::ptrdiff_t>(steep - 1), rises.end(),
                   std::greater<>());
  double jumped = 0, rest = 0;
  for (size_t i = 0; i < rises.size(); ++i) (i < steep ? jumped : rest) += i < steep ? rises[i] : std::abs(rises[i]);
  return jumped >= kSteepShare * grown && rest <= (1 - kSteepShare) * grown;
}

}  // namespace

absl::string_view PhaseName(Phase phase) {
  constexpr std::array<absl::string_view, 6> kNames = {"warm-up",   "steady",  "sawtooth",
                                                       "staircase", "growing", "settling"};
  return kNames[static_cast<size_t>(phase)];
}

Phase PhaseOf(const std::vector<double>& levels, const Forecast& forecast) {
  if (forecast.kind == ForecastKind::kTooShort || levels.empty()) return Phase::kWarmUp;
  // What a program does at its beginning is not what it does.
  const size_t begin = forecast.per_step > 0 ? forecast.grows_since : levels.size() / 8;
  const auto [low, high] = std::minmax_element(levels.begin() + static_cast<std::ptrdiff_t>(begin), levels.end());
  const double range = *high - *low;
  const bool is_flat = range <= kFew * *high;
  if (!is_flat && TeethOf(levels, begin, range) >= kTeeth) return Phase::kSawtooth;
  if (forecast.kind == ForecastKind::kSteady) return Phase::kSteady;
  if (forecast.kind == ForecastKind::kSlowing) return Phase::kSettling;
  return GrowsByJumps(levels, begin) ? Phase::kStaircase : Phase::kGrowing;
}

}  // namespace gpumem
