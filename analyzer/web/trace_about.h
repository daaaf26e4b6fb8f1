// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a page says of the trace itself: facts for who wants to know, and what a reader must know before believing a
// number. Pure functions.
//
//   WriteJsonRemarks("warnings", TraceWarnings(input), &json);

#ifndef GPUMEM_ANALYZER_WEB_TRACE_ABOUT_H_
#define GPUMEM_ANALYZER_WEB_TRACE_ABOUT_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "answers/report/state.h"
#include "base/json_writer.h"
#include "ledger/load/input.h"
#include "web/page_words.h"

namespace gpumem {

// The process first, then what the head of a report has, losses and notes.
std::vector<Remark> TraceFacts(const ReportInput& input);

// Damage, losses, a window, a trace that is a copy or goes on.
std::vector<Remark> TraceWarnings(const ReportInput& input);

// "warnings": [{"lead", "text", "level"}], level one of alarm, warning, note. Text is safe to show, and in `words`.
void WriteJsonRemarks(absl::string_view key, const std::vector<Remark>& remarks, PageWords* words, JsonWriter* json);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_WEB_TRACE_ABOUT_H_
