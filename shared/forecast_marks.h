// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the marks begin with that `gpumemshim forecast --watch` and gpumemshim.on_forecast leave in a trace, for the
// recorder and for the report. The whole mark has more in parentheses: "forecast callback failed (exec: exited with
// code 3)".

#ifndef GPUMEM_SHARED_FORECAST_MARKS_H_
#define GPUMEM_SHARED_FORECAST_MARKS_H_

namespace gpumem::format {

inline constexpr char kForecastWarningMark[] = "forecast warning";
inline constexpr char kFailedCallbackMark[] = "forecast callback failed";

}  // namespace gpumem::format

#endif  // GPUMEM_SHARED_FORECAST_MARKS_H_
