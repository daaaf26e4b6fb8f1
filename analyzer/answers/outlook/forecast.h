// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Whether, and when, a series of levels (the peaks of steps) reaches a limit if it goes on as it did. Says nothing
// where nothing grows, where growth slows down below the limit, where the series comes and goes, and where there is too
// little of it. Pure functions.
//
// The newest stretch that grows evenly is found first. Its growth is then taken as a random walk with drift: mean and
// variance of its increments, from blocks of steps, give the time to the limit and a range that holds it in nine cases
// of ten (docs/forecast.md has the test set on which that was counted).
//
//   const Forecast forecast = ForecastOf(peaks, {.low = 70e9, .high = 72e9});
//   if (forecast.kind == ForecastKind::kReaches) forecast.earliest;  // steps from the last one on

#ifndef GPUMEM_ANALYZER_ANSWERS_OUTLOOK_FORECAST_H_
#define GPUMEM_ANALYZER_ANSWERS_OUTLOOK_FORECAST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpumem {

enum class ForecastKind : uint8_t {
  kTooShort,  // fewer than kLeastSteps values
  kSteady,    // nothing grows that would go on
  kSlowing,   // it grows, less and less, and by its pace ends below the limit
  kFar,       // it grows, but has longer to go than kHorizon of the time that it has grown: it may well stop
  kReaches,
};

// "too_short", "steady", "slowing", "far", "reaches".
absl::string_view ForecastKindName(ForecastKind kind);

// Bytes; a range where it is not known how much of what is free can be used.
struct ForecastLimit {
  double low = 0, high = 0;
};

// How the growth from window to window scatters, and so how wide a range it needs.
enum class Scatter : uint8_t {
  kReturns,  // what is more now is less then: noise of batches, a saw
  kStays,    // each window has its own: growth by chance
  kLasts,    // what is more now is more then, too: the rate itself changes
};

struct Forecast {
  ForecastKind kind = ForecastKind::kTooShort;
  size_t grows_since = 0;           // index of the value at which the stretch begins
  double per_step = 0;              // bytes
  double confidence = 0;            // that it grows at all: one-sided Mann-Kendall test
  double earliest = 0, likely = 0;  // steps after the last value
  double latest = 0;                // infinity: by then it may as well not
  double settles_at = 0;            // kSlowing: bytes
  Scatter scatter = Scatter::kReturns;
};

inline constexpr size_t kLeastSteps = 12;
inline constexpr double kHorizon = 0.4;
// Of the ranges, of runs that go on as they did, that hold.
inline constexpr double kRangeShare = 0.9;

Forecast ForecastOf(const std::vector<double>& levels, const ForecastLimit& limit);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_OUTLOOK_FORECAST_H_
