// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Pieces that several JSON answers share. Each writes members into the object that is open, or one value. docs/json.md
// documents every key, and a test compares the two. Sizes are bytes, times nanoseconds from the first event on,
// addresses hexadecimal strings.

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_JSON_PARTS_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_JSON_PARTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/json_writer.h"
#include "ledger/load/input.h"
#include "replay/analysis.h"
#include "trace/event_batch.h"

namespace gpumem {

// What every answer about a trace starts with.
void WriteJsonCommon(absl::string_view command, const ReportInput& input, JsonWriter* json);

void WriteJsonTextOrNull(absl::string_view key, const std::string& text, bool known, JsonWriter* json);
void WriteJsonMap(absl::string_view key, const std::map<std::string, std::string>& values, JsonWriter* json);
void WriteJsonValues(const MeasureValues& values, JsonWriter* json);  // members
void WriteJsonEvents(const EventCounts& events, JsonWriter* json);    // "events": {...}
void WriteJsonLosses(const LossCounts& losses, JsonWriter* json);     // "losses": {...}

// Members of an event's object: when, what, where and how large. `since`: ns from the first event on.
void WriteJsonEvent(const EventRow& row, uint64_t since, JsonWriter* json);

// "frames": [...], innermost first, and "site": the line that stands for the stack in text reports.
void WriteJsonStack(uint64_t stack_id, absl::string_view api, const ReportInput& input, JsonWriter* json);

// "stacks": [...], the largest `top` (0 = all).
void WriteJsonStacks(absl::string_view key, const std::vector<StackUse>& stacks, size_t top, const ReportInput& input,
                     JsonWriter* json);

void WriteJsonLiveSet(absl::string_view key, const LiveSet& live, size_t top, const ReportInput& input,
                      JsonWriter* json);

void WriteJsonRecording(const ReportInput& input, JsonWriter* json);  // "recording": {...}
void WriteJsonMarks(const ReportInput& input, JsonWriter* json);      // "marks": [...], "marks_left_out"

// Members of a device's object.
void WriteJsonDeviceHead(const DeviceAnalysis& device, const ReportInput& input, JsonWriter* json);
void WriteJsonBreakdown(const DeviceAnalysis& device, const ReportInput& input, JsonWriter* json);
void WriteJsonDeviceSamples(const DeviceAnalysis& device, const ReportInput& input, JsonWriter* json);
// Members of the answer.
void WriteJsonSampling(const SamplingInfo& sampling, const ReportInput& input, JsonWriter* json);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_JSON_PARTS_H_
