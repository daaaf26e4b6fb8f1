// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A Forecast for machines: docs/json.md has its fields. Pure function.

#ifndef GPUMEM_PLANNER_PREDICT_FORECAST_JSON_H_
#define GPUMEM_PLANNER_PREDICT_FORECAST_JSON_H_

#include <functional>
#include <string>

#include "base/json_writer.h"
#include "planner/predict/forecast.h"

namespace gpumem::plan {

absl::string_view RunEndName(RunEnd end);
absl::string_view HostReadKindName(HostReadKind kind);

// `write_moment` adds the members that say what the peak is made of; may be empty.
std::string ForecastJson(const Forecast& forecast, const std::function<void(JsonWriter*)>& write_moment);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_PREDICT_FORECAST_JSON_H_
