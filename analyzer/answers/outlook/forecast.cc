// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/outlook/forecast.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/mann_kendall.h"

namespace gpumem {
namespace {

constexpr size_t kMostWindows = 48;  // of a stretch; Sen's slope takes the square of it
constexpr size_t kBlocks = 8;        // of increments
constexpr double kLeastConfidence = 0.999;
constexpr double kLeastGrowth = 1 << 20;  // bytes in the stretch
constexpr double kLeastShare = 0.002;     // of the level
constexpr double kEven = 0.45;       // slope of one half, of that of the other: below, growth slows down or speeds up
constexpr double kDeepFall = 0.3;    // of what the stretch grew: from there on a fall is looked at
constexpr double kFloorShare = 0.5;  // of the line's growth between the lowest levels before and after it
// Of an acceleration: in standard errors, and of the mean rate over the stretch.
constexpr double kBeyondDoubt = 5, kLeastRise = 0.5;
constexpr double kNineOfTen = 1.645;
constexpr double kLeastWidth = 0.02;  // of the time left, and a step: what steps have between their peaks
constexpr double kStep = 1;           // the least that the later side has after all
// Student's t for kBlocks - 1 degrees of freedom is wider than the normal distribution.
constexpr double kFewBlocks = 1.895 / 1.645;
// Of neighbouring growths: the correlation below which scatter returns, and from which on it lasts.
constexpr double kReturning = -0.3, kLasting = 0.35;

// By how much each side of a range is made narrower or wider, by Scatter: so that nine ranges in ten hold on the two
// thirds of the test set that are not held back (`forecast_bench PEAKS --calibrate`). `likely` is early as a rule,
// since it counts the highest peaks: little is needed on that side.
struct Sides {
  double earlier, later;
};
constexpr std::array<Sides, 3> kCalibrated = {{{0.1, 0.72}, {0.2, 1.4}, {0.1, 0.8}}};

double Median(std::vector<double> values) {
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle), values.end());
  return values[middle];
}

// A stretch in windows: where each lies, and its median.
struct Windows {
  std::vector<double> at, level;
};

Windows WindowsOf(const std::vector<double>& levels, size_t begin) {
  const size_t length = levels.size() - begin, count = std::min(kMostWindows, length);
  Windows windows;
  for (size_t i = 0; i < count; ++i) {
    const size_t from = begin + i * length / count, to = begin + (i + 1) * length / count;
    windows.at.push_back((static_cast<double>(from) + static_cast<double>(to) - 1) / 2);
    windows.level.push_back(
        Median({levels.begin() + static_cast<std::ptrdiff_t>(from), levels.begin() + static_cast<std::ptrdiff_t>(to)}));
  }
  return windows;
}

// Median of the slopes of all pairs (Theil 1950, Sen 1968).
double SlopeOf(const Windows& windows, size_t from, size_t to) {
  std::vector<double> slopes;
  for (size_t i = from; i < to; ++i)
    for (size_t j = i + 1; j < to; ++j)
      slopes.push_back((windows.level[j] - windows.level[i]) / (windows.at[j] - windows.at[i]));
  return slopes.empty() ? 0 : Median(std::move(slopes));
}

struct Stretch {
  size_t begin = 0;
  bool grows = false;
  bool slows = false, speeds_up = false;
  double slope = 0, confidence = 0;
  double level = 0;                        // by the line, at the last value
  double above_usual = 0, above_most = 0;  // values over the line
  double variance = 0;                     // of an increment, per step
  double slope_error = 0;
  Scatter scatter = Scatter::kReturns;
  // Where the rate itself grows, beyond doubt: by how much a step, and what it is now. Else 0.
  double acceleration = 0, rate_now = 0, level_now = 0;
};

// Whether the rates of blocks rise along a line, and far more than they scatter around it.
void MeasureAcceleration(const std::vector<double>& centres, const std::vector<double>& rates, const Windows& windows,
                         Stretch* stretch) {
  const auto count = static_cast<double>(rates.size());
  if (rates.size() < kBlocks) return;
  const double centre = std::accumulate(centres.begin(), centres.end(), 0.0) / count;
  const double mean = std::accumulate(rates.begin(), rates.end(), 0.0) / count;
  double across = 0, along = 0, rest = 0;
  for (size_t i = 0; i < rates.size(); ++i) {
    across += (centres[i] - centre) * (rates[i] - mean);
    along += (centres[i] - centre) * (centres[i] - centre);
  }
  const double rise = across / along;
  for (size_t i = 0; i < rates.size(); ++i) {
    const double error = rates[i] - mean - rise * (centres[i] - centre);
    rest += error * error;
  }
  const double error = std::sqrt(rest / (count - 2) / along);
  const double span = windows.at.back() - windows.at.front();
  if (rise <= kBeyondDoubt * error || rise * span < kLeastRise * mean) return;
  stretch->acceleration = rise;
  stretch->rate_now = mean + rise * (windows.at.back() - centre);
  stretch->level_now = windows.level.back();
}

// Mean and spread of increments, from blocks of the stretch.
void MeasureIncrements(const Windows& windows, Stretch* stretch) {
  const size_t blocks = std::min(kBlocks, windows.level.size() / 2);
  std::vector<double> rates, spans, centres;
  for (size_t i = 0; i < blocks; ++i) {
    const size_t from = i * (windows.level.size() - 1) / blocks, to = (i + 1) * (windows.level.size() - 1) / blocks;
    spans.push_back(windows.at[to] - windows.at[from]);
    rates.push_back((windows.level[to] - windows.level[from]) / spans.back());
    centres.push_back((windows.at[from] + windows.at[to]) / 2);
  }
  MeasureAcceleration(centres, rates, windows, stretch);
  const double mean = std::accumulate(rates.begin(), rates.end(), 0.0) / static_cast<double>(rates.size());
  double squares = 0;
  for (const double rate : rates) squares += (rate - mean) * (rate - mean);
  const double spread = squares / static_cast<double>(rates.size() - 1);
  stretch->slope_error = std::sqrt(spread / static_cast<double>(rates.size()));
  stretch->variance = spread * std::accumulate(spans.begin(), spans.end(), 0.0) / static_cast<double>(spans.size());
}

// By the correlation of each window's growth with that of the one before.
Scatter ScatterOf(const Windows& windows, double slope) {
  std::vector<double> rests;
  for (size_t i = 1; i < windows.level.size(); ++i)
    rests.push_back(windows.level[i] - windows.level[i - 1] - slope * (windows.at[i] - windows.at[i - 1]));
  const double mean = std::accumulate(rests.begin(), rests.end(), 0.0) / static_cast<double>(rests.size());
  double squares = 0, products = 0;
  for (size_t i = 0; i < rests.size(); ++i) {
    squares += (rests[i] - mean) * (rests[i] - mean);
    if (i > 0) products += (rests[i] - mean) * (rests[i - 1] - mean);
  }
  if (squares <= 0) return Scatter::kStays;
  const double correlation = products / squares;
  if (correlation < kReturning) return Scatter::kReturns;
  return correlation < kLasting ? Scatter::kStays : Scatter::kLasts;
}

// What a collector gives back was never kept: it is not growth. After the deepest fall of the stretch the lowest level
// must have risen with the line. Small falls are the noise of batches.
bool FloorsRise(const Windows& windows, double slope) {
  const std::vector<double>& level = windows.level;
  size_t top = 0, from = 0;
  double deepest = 0;
  for (size_t i = 1; i < level.size(); ++i) {
    if (level[i] > level[top]) top = i;
    if (level[top] - level[i] <= deepest) continue;
    deepest = level[top] - level[i];
    from = top;
  }
  const double grown = slope * (windows.at.back() - windows.at.front());
  if (deepest < kDeepFall * grown) return true;
  const auto before = std::min_element(level.begin(), level.begin() + static_cast<std::ptrdiff_t>(from) + 1);
  const auto after = std::min_element(level.begin() + static_cast<std::ptrdiff_t>(from) + 1, level.end());
  const double apart =
      windows.at[static_cast<size_t>(after - level.begin())] - windows.at[static_cast<size_t>(before - level.begin())];
  return *after - *before >= kFloorShare * slope * apart;
}

Stretch Look(const std::vector<double>& levels, size_t begin) {
  Stretch stretch;
  stretch.begin = begin;
  const Windows windows = WindowsOf(levels, begin);
  const size_t count = windows.level.size();
  stretch.slope = SlopeOf(windows, 0, count);
  stretch.confidence = RisingConfidence(windows.level);
  std::vector<double> rests;
  for (size_t i = 0; i < count; ++i) rests.push_back(windows.level[i] - stretch.slope * windows.at[i]);
  const double base = Median(std::move(rests));
  const double last = static_cast<double>(levels.size()) - 1;
  stretch.level = base + stretch.slope * last;
  std::vector<double> above;
  // Of the later half: the stretch may begin before the growth does.
  for (size_t i = begin + (levels.size() - begin) / 2; i < levels.size(); ++i)
    above.push_back(levels[i] - base - stretch.slope * static_cast<double>(i));
  std::sort(above.begin(), above.end());
  stretch.above_usual = std::max(0.0, above[above.size() / 2]);
  stretch.above_most = std::max(0.0, above.back());
  const double grown = stretch.slope * static_cast<double>(levels.size() - begin);
  stretch.grows = stretch.confidence >= kLeastConfidence && grown >= kLeastGrowth &&
                  grown >= kLeastShare * stretch.level && FloorsRise(windows, stretch.slope);
  const double early = SlopeOf(windows, 0, count / 2), late = SlopeOf(windows, count / 2, count);
  stretch.slows = late < kEven * std::max(early, stretch.slope);
  stretch.speeds_up = early < kEven * late;
  stretch.scatter = ScatterOf(windows, stretch.slope);
  MeasureIncrements(windows, &stretch);
  return stretch;
}

// Steps until growth whose rate grows, too, has gone `gap`.
double StepsOfAcceleration(double gap, double rate, double acceleration) {
  if (gap <= 0) return 0;
  return (std::sqrt(rate * rate + 2 * acceleration * gap) - rate) / acceleration;
}

// Steps until a walk of this drift and spread has gone `gap`, with `z` standard deviations in its favour.
double StepsTo(double gap, const Stretch& stretch, double z) {
  if (gap <= 0) return 0;
  const auto reach = [&](double steps) {
    const double error = stretch.slope_error * steps;
    return stretch.slope * steps + z * std::sqrt(error * error + stretch.variance * steps);
  };
  double from = 0, to = 1;
  while (reach(to) < gap) {
    from = to;
    to *= 2;
    if (to > 1e12) return std::numeric_limits<double>::infinity();
  }
  for (int i = 0; i < 60; ++i) {
    const double middle = (from + to) / 2;
    (reach(middle) < gap ? from : to) = middle;
  }
  return to;
}

// Where growth ends that gets less by the same factor from third to third; infinity where it does not.
double SettlesAt(const std::vector<double>& levels, size_t begin, double level) {
  const Windows windows = WindowsOf(levels, begin);
  const size_t third = windows.level.size() / 3;
  const double middle = SlopeOf(windows, third, 2 * third), late = SlopeOf(windows, 2 * third, windows.level.size());
  const double ratio = middle <= 0 ? 1 : late / middle;
  if (ratio >= 0.75) return std::numeric_limits<double>::infinity();
  const double grown = std::max(0.0, late) * static_cast<double>(levels.size() - begin) / 3;
  return level + grown * std::max(ratio, 0.0) / (1 - std::max(ratio, 0.0));
}

struct StepsSpan {
  double earliest = 0, likely = 0, latest = 0;  // steps
};

// Nine in ten, if the growth goes on as it was.
StepsSpan SpanTo(double limit, const Stretch& stretch) {
  const double z = kNineOfTen * kFewBlocks, highest = stretch.level + stretch.above_most;
  StepsSpan span;
  span.likely = StepsTo(limit - highest, stretch, 0);
  span.earliest = StepsTo(limit - highest, stretch, z);
  span.latest = StepsTo(limit - stretch.level - stretch.above_usual, stretch, -z);
  if (stretch.acceleration > 0) {
    // At the earliest the rate goes on growing as it did, at the latest it stays what it is now.
    const double top = stretch.level_now + stretch.above_most;
    span.earliest = std::min(span.earliest, StepsOfAcceleration(limit - top, stretch.rate_now, stretch.acceleration));
    span.latest = std::min(span.latest, std::max(0.0, limit - stretch.level_now) / stretch.rate_now);
    span.likely = (span.earliest + span.latest) / 2;
  }
  const double least = 1 + kLeastWidth * span.likely;
  const Sides& sides = kCalibrated[static_cast<size_t>(stretch.scatter)];
  const double before = sides.earlier * (span.likely - span.earliest);
  const double after = sides.later * std::max(least, span.latest - span.likely);
  span.earliest = std::max(0.0, span.likely - std::max(least, before));
  span.latest = span.likely + std::max(kStep, after);
  return span;
}

// It was as high before the stretch began, and came down again.
bool WasThereBefore(const std::vector<double>& levels, const Stretch& stretch) {
  if (stretch.begin == 0) return false;
  const auto begin = levels.begin() + static_cast<std::ptrdiff_t>(stretch.begin);
  return *std::max_element(levels.begin(), begin) >= *std::max_element(begin, levels.end());
}

}  // namespace

absl::string_view ForecastKindName(ForecastKind kind) {
  constexpr std::array<absl::string_view, 5> kNames = {"too_short", "steady", "slowing", "far", "reaches"};
  return kNames[static_cast<size_t>(kind)];
}

Forecast ForecastOf(const std::vector<double>& levels, const ForecastLimit& limit) {
  Forecast forecast;
  if (levels.size() < kLeastSteps) return forecast;
  forecast.kind = ForecastKind::kSteady;
  // The longest stretch up to now that grows evenly; the shortest one where it speeds up all the while.
  Stretch found;
  for (size_t eighth = 0; eighth < 8; ++eighth) {
    const size_t begin = levels.size() * eighth / 8;
    if (levels.size() - begin < kLeastSteps) break;
    const Stretch stretch = Look(levels, begin);
    if (!stretch.grows || WasThereBefore(levels, stretch)) continue;
    if (!found.grows || found.speeds_up || !stretch.slows) found = stretch;
    if (!stretch.slows && !stretch.speeds_up) break;
  }
  if (!found.grows) return forecast;
  forecast.grows_since = found.begin;
  forecast.per_step = found.slope;
  forecast.confidence = found.confidence;
  const double highest = found.level + found.above_most;
  double bound = SettlesAt(levels, 0, highest);
  if (!found.slows && found.begin != 0) bound = std::min(bound, SettlesAt(levels, found.begin, highest));
  if (found.slows || bound < limit.low) {
    forecast.kind = ForecastKind::kSlowing;
    forecast.settles_at = bound;
    return forecast;
  }
  forecast.scatter = found.scatter;
  const StepsSpan low = SpanTo(limit.low, found), high = SpanTo(limit.high, found);
  forecast.earliest = low.earliest;
  forecast.likely = SpanTo((limit.low + limit.high) / 2, found).likely;
  forecast.latest = high.latest;
  const auto seen = static_cast<double>(levels.size() - found.begin);
  forecast.kind = forecast.likely > kHorizon * seen ? ForecastKind::kFar : ForecastKind::kReaches;
  return forecast;
}

}  // namespace gpumem
