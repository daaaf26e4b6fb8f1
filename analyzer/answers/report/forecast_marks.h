// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What `gpumemshim forecast --watch` noted in a trace while the program ran, as lines of the report. Pure.
//
//   for (const std::string& line : ForecastLines(analysis.marks.entries(), input)) ...
//   // "warned 2 times, first at 1.234 s (high, GPU 0, step 66: ...)", "1 callback failed, first (exec: exited with
//   code 3)"

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_FORECAST_MARKS_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_FORECAST_MARKS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ledger/load/input.h"
#include "replay/mark_log.h"
#include "shared/event.h"

namespace gpumem {

// What such marks begin with. With their sizes: under the undefined-behaviour sanitizer GCC 12 does not compute strlen
// of another header's array while it compiles.
inline constexpr absl::string_view kForecastWarning(format::kForecastWarningMark,
                                                    sizeof(format::kForecastWarningMark) - 1);
inline constexpr absl::string_view kFailedCallback(format::kFailedCallbackMark,
                                                   sizeof(format::kFailedCallbackMark) - 1);

// Of those inside the window of `input`.
std::vector<std::string> ForecastLines(const std::vector<MarkEntry>& marks, const ReportInput& input);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_FORECAST_MARKS_H_
