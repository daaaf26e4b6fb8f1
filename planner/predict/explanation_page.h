// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What --explain found, as text for people and as JSON (docs/json.md has its fields). Pure functions; they add nothing
// where it was not asked for.
//
//   AddExplanation(forecast, &page);
//   WriteExplanation(forecast, &json);

#ifndef GPUMEM_PLANNER_PREDICT_EXPLANATION_PAGE_H_
#define GPUMEM_PLANNER_PREDICT_EXPLANATION_PAGE_H_

#include "base/json_writer.h"
#include "planner/predict/forecast.h"
#include "render/page.h"

namespace gpumem::plan {

// The answer to "how does it fit", the cheapest ways with what each costs, and what is not possible, with the reason.
void AddExplanation(const Forecast& forecast, Page* page);

// The member "explain".
void WriteExplanation(const Forecast& forecast, JsonWriter* json);

// "nothing", "recompute", "pieces", "transfers", "rounding".
absl::string_view CostName(ReductionCost cost);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_PREDICT_EXPLANATION_PAGE_H_
