// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A Forecast as text for people. Pure functions; each adds one section, or nothing where there is nothing to say.
//
//   AddVerdict(forecast, input, &page);   // first; then categories and lines of the trace, then:
//   AddWhatIfs(forecast, &page);
//   AddConfidence(forecast, &page);

#ifndef GPUMEM_PLANNER_PREDICT_FORECAST_PAGE_H_
#define GPUMEM_PLANNER_PREDICT_FORECAST_PAGE_H_

#include <string>

#include "planner/predict/forecast.h"
#include "render/page.h"

namespace gpumem::plan {

// Whether it fits, the peaks, and how far the program ran.
void AddVerdict(const Forecast& forecast, Page* page);

// Every value that --vary tried, and the largest that fits.
void AddVaried(const Forecast& forecast, Page* page);

// What a change would save, the largest first.
void AddWhatIfs(const Forecast& forecast, Page* page);

// What the numbers rest on, and where they may be wrong.
void AddConfidence(const Forecast& forecast, Page* page);

// Where its seconds went.
void AddTime(const TimeSpent& time, Page* page);

// Why there is no answer: the program failed, or used no CUDA. With the end of what it wrote.
void AddFailure(const Forecast& forecast, Page* page);

// "stopped after step 4: the peak did not grow since step 2".
std::string EndText(const Forecast& forecast);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_PREDICT_FORECAST_PAGE_H_
