// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/json_parts.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "answers/report/cupti_words.h"
#include "answers/report/live_moment.h"
#include "answers/report/marks.h"
#include "answers/report/stack_rows.h"
#include "answers/report/trace_answer.h"
#include "ledger/stacks/names.h"
#include "render/draw.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

void WriteProcess(const ProcessInfo& process, JsonWriter* json) {
  json->Key("process");
  json->BeginObject();
  json->Field("pid", process.pid);
  json->Field("parent_pid", process.parent_pid);
  json->Field("hostname", process.hostname);
  json->Field("executable", process.executable);
  json->Field("working_directory", process.working_directory);
  json->Key("command_line");
  json->BeginArray(JsonLayout::kOneLine);
  for (const std::string& argument : process.command_line) json->Value(argument);
  json->EndArray();
  json->Key("rank");
  process.rank < 0 ? json->Null() : json->Value(process.rank);
  json->Key("world_size");
  process.world_size < 0 ? json->Null() : json->Value(process.world_size);
  json->Field("writer_version", process.writer_version);
  json->Key("imported");
  const ImportInfo imported = ImportInfoOf(process.settings);
  if (imported.any()) {
    json->BeginObject();
    json->Field("format", imported.format);
    json->Field("recorder", imported.recorder);
    json->Field("source", imported.source);
    json->Field("has_times", imported.has_times);
    json->EndObject();
  } else {
    json->Null();
  }
  WriteJsonMap("versions", process.versions, json);
  json->EndObject();
}

void WriteSeries(const SeriesInfo& series, JsonWriter* json) {
  json->Key("series");
  if (series.files == 0) return json->Null();
  json->BeginObject();
  json->Field("files", series.files);
  json->Field("first_number", series.first_number);
  json->Field("last_number", series.last_number);
  json->Field("events_before", series.events_before);
  json->Field("objects_not_in_snapshot", series.objects_not_in_snapshot);
  json->Field("missing_files", series.missing_files);
  json->Field("goes_on_elsewhere", series.goes_on_elsewhere);
  json->EndObject();
}

// A time since the start, or null for 0.
void WriteTimeOrNull(absl::string_view key, uint64_t time_ns, const ReportInput& input, JsonWriter* json) {
  json->Key(key);
  time_ns == 0 ? json->Null() : json->Value(input.Since(time_ns));
}

void WriteGaps(const ReportInput& input, JsonWriter* json) {
  WriteTimeOrNull("unsure_from_ns", input.analysis->unsure_from_ns, input, json);
  json->Key("gaps");
  json->BeginArray();
  for (const TraceGap& gap : input.analysis->gaps) {
    json->BeginObject(JsonLayout::kOneLine);
    WriteTimeOrNull("from_ns", gap.from_ns, input, json);
    WriteTimeOrNull("to_ns", gap.to_ns, input, json);
    json->Field("packets", gap.packets);
    json->Key("events");
    gap.events_known ? json->Value(gap.events) : json->Null();
    json->EndObject();
  }
  json->EndArray();
}

void WriteCupti(const ReportInput& input, JsonWriter* json) {
  const CuptiInfo& cupti = input.analysis->cupti;
  json->Key("cupti");
  if (!cupti.asked) return json->Null();
  json->BeginObject();
  json->Field("state", CuptiStateName(cupti.state));
  json->Field("library", cupti.library);
  json->Field("version", cupti.version);
  json->Field("error", cupti.error);
  WriteTimeOrNull("began_ns", cupti.began_ns, input, json);
  WriteTimeOrNull("complete_until_ns", cupti.complete_until_ns, input, json);
  json->Field("records", cupti.records);
  const UnseenPeak unseen = UnseenPeakOf(cupti);
  json->Key("unseen_allocations");
  cupti.compared ? json->Value(unseen.allocations) : json->Null();
  json->Key("unseen_peak_bytes");
  cupti.compared ? json->Value(unseen.bytes) : json->Null();
  json->EndObject();
}

}  // namespace

void WriteJsonCommon(absl::string_view command, const ReportInput& input, JsonWriter* json) {
  const Analysis& analysis = *input.analysis;
  json->Field("schema_version", kJsonSchemaVersion);
  json->Field("command", command);
  json->Field("file", analysis.path);
  json->Field("file_bytes", analysis.file_bytes);
  json->Field("program", analysis.process.program);
  json->Field("complete", analysis.complete);
  json->Field("snapshot", analysis.snapshot);
  json->Key("running");
  analysis.complete || analysis.state != Analysis::Process::kUnknown
      ? json->Value(analysis.state == Analysis::Process::kRunning)
      : json->Null();
  json->Field("recovered_events", analysis.recovered_events);
  json->Field("end_unknown", analysis.end_unknown);
  json->Key("damage");
  analysis.damage.empty() ? json->Null() : json->Value(analysis.damage);
  WriteGaps(input, json);
  json->Field("start_realtime_ns", input.StartRealtime());
  json->Field("duration_ns", input.Since(analysis.end_ns));
  json->Key("program_end_ns");
  analysis.program_end_ns == 0 ? json->Null() : json->Value(input.Since(analysis.program_end_ns));
  json->Field("from_ns", input.Since(input.window_start_ns()));
  json->Field("to_ns", input.Since(input.window_end_ns()));
  WriteProcess(analysis.process, json);
  WriteJsonRecording(input, json);
  WriteJsonEvents(analysis.events, json);
  WriteJsonLosses(analysis.losses, json);
  WriteCupti(input, json);
  WriteSeries(analysis.series, json);
  json->Key("notes");
  json->BeginArray();
  for (const std::string& note : analysis.notes) json->Value(note);
  json->EndArray();
}

void WriteJsonTextOrNull(absl::string_view key, const std::string& text, bool known, JsonWriter* json) {
  json->Key(key);
  known ? json->Value(text) : json->Null();
}

void WriteJsonMap(absl::string_view key, const std::map<std::string, std::string>& values, JsonWriter* json) {
  json->Key(key);
  json->BeginObject();
  for (const auto& [name, value] : values) json->Field(name, value);
  json->EndObject();
}

void WriteJsonValues(const MeasureValues& values, JsonWriter* json) {
  json->Field("allocated_bytes", values.allocated);
  json->Field("reserved_bytes", values.reserved);
  json->Field("other_bytes", values.other);
  json->Field("total_bytes", values.total);
}

void WriteJsonEvents(const EventCounts& events, JsonWriter* json) {
  json->Key("events");
  json->BeginObject();
  json->Field("torch", events.torch);
  json->Field("runtime", events.runtime);
  json->Field("driver", events.driver);
  json->Key("by_kind");
  json->BeginObject();
  for (const auto& [kind, count] : events.by_kind) json->Field(absl::AsciiStrToLower(kind), count);
  json->EndObject();
  json->EndObject();
}

namespace {

void WriteUnseen(const UnseenCalls& calls, JsonWriter* json) {
  constexpr absl::string_view kCauses[] = {"unknown", "bound_past", "looked_up_past", "other_namespace",
                                           "second_driver"};
  json->BeginObject(JsonLayout::kOneLine);
  json->Field("cause", kCauses[static_cast<size_t>(calls.cause)]);
  json->Field("object", calls.object);
  json->Field("function_count", calls.function_count);
  json->Key("functions");
  json->BeginArray();
  for (const std::string& function : calls.functions) json->Value(function);
  json->EndArray();
  json->EndObject();
}

}  // namespace

void WriteJsonLosses(const LossCounts& losses, JsonWriter* json) {
  json->Key("losses");
  json->BeginObject();
  json->Field("total", losses.Total());
  json->Field("dropped_allocs", losses.dropped_allocs);
  json->Field("dropped_frees", losses.dropped_frees);
  json->Field("unwritten_events", losses.unwritten_events);
  json->Field("dropped_definitions", losses.dropped_definitions);
  json->Field("truncated_stacks", losses.truncated_stacks);
  json->Field("unread_python_frames", losses.unread_python_frames);
  json->Field("missing_packets", losses.missing_packets);
  json->Field("missing_events", losses.missing_events);
  json->Field("damaged_bytes", losses.damaged_bytes);
  json->Field("cupti_dropped_records", losses.cupti_dropped_records);
  json->Field("cupti_lost_records", losses.cupti_lost_records);
  json->Key("write_error");
  losses.write_error.empty() ? json->Null() : json->Value(losses.write_error);
  json->Key("unseen");
  json->BeginArray();
  for (const UnseenCalls& calls : losses.unseen) WriteUnseen(calls, json);
  json->EndArray();
  json->EndObject();
}

void WriteJsonEvent(const EventRow& row, uint64_t since, JsonWriter* json) {
  json->Field("time_ns", since);
  json->Field("layer", LayerName(static_cast<uint8_t>(row.layer)));
  json->Field("kind", EventKindName(static_cast<uint32_t>(row.kind)));
  json->Field("memory", MemoryName(static_cast<uint8_t>(row.memory)));
  json->Field("device", row.device);
  json->Field("address", absl::StrFormat("0x%x", row.address));
  json->Field("size_bytes", row.size);
  json->Field("requested_bytes", row.requested_size);
  json->Field("stream", absl::StrFormat("0x%x", row.stream));
}

void WriteJsonStack(uint64_t stack_id, absl::string_view api, const ReportInput& input, JsonWriter* json) {
  json->Key("site");
  SiteDatum({stack_id, api}, input).Write(json);
  json->Key("hash");
  HashDatum(stack_id, input).Write(json);
  json->Key("frames");
  FramesDatum(stack_id, input).Write(json);
}

void WriteJsonStacks(absl::string_view key, const std::vector<StackUse>& stacks, size_t top, const ReportInput& input,
                     JsonWriter* json) {
  Document list;
  AddStacks(key, stacks, top, input, &list);
  WriteMembers(list, json);
}

void WriteJsonLiveSet(absl::string_view key, const LiveSet& live, size_t top, const ReportInput& input,
                      JsonWriter* json) {
  json->Key(key);
  json->BeginObject();
  WriteMembers(LiveSetFields(live, top, input), json);
  json->EndObject();
}

void WriteJsonDeviceHead(const DeviceAnalysis& device, const ReportInput& input, JsonWriter* json) {
  WriteMembers(DeviceAnswer(device, input), json);
}

}  // namespace gpumem
