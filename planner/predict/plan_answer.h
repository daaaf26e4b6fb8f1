// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What `gpumemshim plan` answers of a Forecast, for people and machines. Pure functions; a section adds nothing where
// there is nothing to say. The forecast outlives its answer.
//
//   const Document answer = PlanAnswer(forecast, peak, losses);

#ifndef GPUMEM_PLANNER_PREDICT_PLAN_ANSWER_H_
#define GPUMEM_PLANNER_PREDICT_PLAN_ANSWER_H_

#include <string>

#include "absl/strings/string_view.h"
#include "planner/predict/forecast.h"
#include "render/document.h"

namespace gpumem::plan {

// The whole. `peak`: what it is made of, and `losses`, both of the trace. Without an answer: why there is none.
Document PlanAnswer(const Forecast& forecast, Document peak = {}, Document losses = {});

// Its parts.

// What machines get, of the verdict and of what people read of it in sentences.
Document ForecastFields(const Forecast& forecast);

// Whether it fits, the peaks, and how far the program ran.
void AddVerdict(const Forecast& forecast, Document* answer);

// Every value that --vary tried, and the largest that fits.
void AddVaried(const Forecast& forecast, Document* answer);

// What a change would save, the largest first.
void AddWhatIfs(const Forecast& forecast, Document* answer);

// What --explain found: how it fits, the cheapest ways with what each costs, and what is not possible, with the reason.
void AddExplanation(const Forecast& forecast, Document* answer);

// What the numbers rest on, and where they may be wrong.
void AddConfidence(const Forecast& forecast, Document* answer);

// Where its seconds went.
void AddTime(const TimeSpent& time, Document* answer);

// Why there is no answer: the program failed, or used no CUDA. With the end of what it wrote.
void AddFailure(const Forecast& forecast, Document* answer);

// "stopped after step 4: the peak did not grow since step 2".
std::string EndText(const Forecast& forecast);

absl::string_view RunEndName(RunEnd end);
absl::string_view HostReadKindName(HostReadKind kind);

// Null where there are none.
Datum PeaksDatum(const RunPeaks* peaks);
inline Datum PeaksDatum(const std::optional<RunPeaks>& peaks) {
  return PeaksDatum(peaks.has_value() ? &*peaks : nullptr);
}

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_PREDICT_PLAN_ANSWER_H_
