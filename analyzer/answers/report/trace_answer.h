// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How every answer about one trace begins and ends, and its list of devices. `input` outlives the answer. Pure
// functions.
//
//   Document answer = TraceAnswer("forecast", input);
//   answer.Append(OutlookAnswer(outlook));
//   EndWithNotes(input, &answer);

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_TRACE_ANSWER_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_TRACE_ANSWER_H_

#include <functional>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "ledger/load/input.h"
#include "render/document.h"
#include "replay/analysis.h"

namespace gpumem {

// The members of every answer about a trace, and some of them apart.
Document HeadFields(absl::string_view command, const ReportInput& input);
Datum LossesDatum(const LossCounts& losses);
// The same; for people program, trace, devices, and whether the trace is whole.
Document TraceAnswer(absl::string_view command, const ReportInput& input, Detail detail = Detail::kBrief);

// An object of `devices`: which it is, the largest value of each series, and those of the end.
Document DeviceAnswer(const DeviceAnalysis& device, const ReportInput& input);
// All of them, each with what `rest` adds.
void AddDevices(const ReportInput& input, const std::function<void(const DeviceAnalysis&, Document*)>& rest,
                Document* answer);

Datum MapDatum(const std::map<std::string, std::string>& values);
// All four series at an instant.
Datum ValuesDatum(const MeasureValues& values);

// The most page-locked RAM of the host, and that of the end.
Datum HostPinnedDatum(const Analysis& analysis);

// For people, what the numbers rest on; machines have it in the head.
void EndWithNotes(const ReportInput& input, Document* answer);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_TRACE_ANSWER_H_
