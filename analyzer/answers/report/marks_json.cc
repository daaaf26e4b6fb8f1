// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "absl/strings/ascii.h"
#include "answers/report/json_parts.h"

namespace gpumem {
void WriteJsonRecording(const ReportInput& input, JsonWriter* json) {
  const MarkLog& marks = input.analysis->marks;
  json->Key("recording");
  json->BeginObject();
  json->Field("began_late", marks.began_late());
  json->Key("spans");
  json->BeginArray();
  for (const RecordedSpan& span : marks.spans()) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("from_ns", input.Since(span.from_ns));
    json->Field("to_ns", input.Since(span.to_ns));
    json->EndObject();
  }
  json->EndArray();
  json->Key("existing");
  json->BeginArray();
  for (const ExistingAtStart& start : input.analysis->existing) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("at_ns", input.Since(start.time_ns));
    json->Field("known", start.known);
    json->Field("blocks", start.blocks);
    json->Field("allocated_bytes", start.allocated_bytes);
    json->Field("segments", start.segments);
    json->Field("reserved_bytes", start.reserved_bytes);
    json->Field("lost", start.lost);
    json->EndObject();
  }
  json->EndArray();
  json->EndObject();
}

void WriteJsonMarks(const ReportInput& input, JsonWriter* json) {
  const MarkLog& marks = input.analysis->marks;
  json->Key("marks");
  json->BeginArray();
  for (const MarkEntry& entry : marks.entries()) {
    if (entry.time_ns < input.window_start_ns() || entry.time_ns > input.window_end_ns()) continue;
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("time_ns", input.Since(entry.time_ns));
    json->Field("kind", absl::AsciiStrToLower(trace::EventKind_Name(static_cast<trace::EventKind>(entry.kind))));
    json->Field("text", entry.text);
    json->Field("number", entry.number);
    json->Field("tid", entry.tid);
    json->EndObject();
  }
  json->EndArray();
  json->Field("marks_left_out", marks.entries_dropped());
}

}  // namespace gpumem
