// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a series of levels (the peaks of steps) looks like at its end, in one word: for people, and no part of what is
// decided. Pure.
//
//   PhaseOf(peaks, ForecastOf(peaks, limit));   // Phase::kStaircase

#ifndef GPUMEM_ANALYZER_ANSWERS_OUTLOOK_PHASE_H_
#define GPUMEM_ANALYZER_ANSWERS_OUTLOOK_PHASE_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "answers/outlook/forecast.h"

namespace gpumem {

enum class Phase : uint8_t {
  kWarmUp,     // too few steps to tell
  kSteady,     // no growth
  kSawtooth,   // it rises and falls again and again, whether or not it grows besides
  kStaircase,  // it grows by few jumps, with nothing between them
  kGrowing,
  kSettling,  // it grows ever less
};

absl::string_view PhaseName(Phase phase);  // "warm-up", "steady", ...

Phase PhaseOf(const std::vector<double>& levels, const Forecast& forecast);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_OUTLOOK_PHASE_H_
