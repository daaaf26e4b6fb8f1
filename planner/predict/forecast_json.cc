// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/forecast_json.h"

#include "answers/report/json_parts.h"
#include "planner/predict/explanation_page.h"
#include "planner/predict/verdict.h"

namespace gpumem::plan {
namespace {

void WritePeaks(absl::string_view key, const RunPeaks* peaks, JsonWriter* json) {
  json->Key(key);
  if (peaks == nullptr || peaks->device < 0) return json->Null();
  json->BeginObject(JsonLayout::kOneLine);
  json->Field("device", peaks->device);
  json->Field("allocated_bytes", peaks->allocated);
  json->Field("reserved_bytes", peaks->reserved);
  json->Field("process_bytes", peaks->process);
  json->Field("context_bytes", peaks->context);
  json->Field("other_bytes", peaks->elsewhere);
  json->Field("device_bytes", peaks->need());
  json->EndObject();
}

template <typename T>
const T* Or(const std::optional<T>& value) {
  return value.has_value() ? &*value : nullptr;
}

void WriteDevice(const Forecast& forecast, JsonWriter* json) {
  json->Key("device");
  json->BeginObject();
  json->Field("name", forecast.device.name);
  json->Field("full_name", forecast.device.full_name);
  json->Field("count", forecast.device_count);
  json->Field("memory_bytes", forecast.capacity());
  json->Field("capability", CapabilityText(forecast.device.capability));
  json->Field("multiprocessors", forecast.device.multiprocessors);
  json->Field("source", forecast.device.source);
  json->EndObject();
}

void WriteTime(const TimeSpent& time, JsonWriter* json) {
  const auto field = [&](const char* key, const std::optional<double>& seconds) {
    json->Key(key);
    seconds.has_value() ? json->Value(*seconds) : json->Null();
  };
  json->Key("time");
  json->BeginObject(JsonLayout::kOneLine);
  field("total_s", time.total_s);
  field("interpreter_s", time.interpreter_s);
  field("imports_s", time.imports_s);
  field("before_cuda_s", time.before_cuda_s);
  field("first_step_s", time.first_step_s);
  field("later_s", time.later_s);
  field("reading_s", time.reading_s);
  json->Field("further_runs", time.further_runs);
  field("further_runs_s", time.further_s);
  json->EndObject();
}

void WriteSimulatedRank(const Forecast& forecast, JsonWriter* json) {
  json->Key("simulated_rank");
  if (forecast.world_size == 0) return json->Null();
  json->BeginObject(JsonLayout::kOneLine);
  json->Field("rank", forecast.rank);
  json->Field("world_size", forecast.world_size);
  json->EndObject();
}

void WriteProcesses(const Forecast& forecast, JsonWriter* json) {
  json->Key("processes");
  json->BeginArray();
  for (const PlannedProcess& process : forecast.processes) {
    json->BeginObject();
    json->Field("pid", process.reported.pid);
    json->Field("rank", process.reported.rank);
    json->Field("steps", process.reported.steps);
    json->Field("last_growth", process.reported.last_growth);
    json->Field("torch", process.reported.torch);
    json->Field("command", process.name);
    json->Key("values_failed");
    process.reported.values_failed.empty() ? json->Null() : json->Value(process.reported.values_failed);
    json->Field("managed_bytes", process.managed);
    json->Field("pinned_host_bytes", process.pinned_host);
    json->Field("refused_requests", process.refused);
    json->Key("trace");
    process.trace.empty() ? json->Null() : json->Value(process.trace);
    WritePeaks("peak", &process.peaks, json);
    json->EndObject();
  }
  json->EndArray();
}

void WriteReads(const Forecast& forecast, JsonWriter* json) {
  json->Key("host_reads");
  json->BeginArray();
  for (const HostRead& read : forecast.reads) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("kind", HostReadKindName(read.kind));
    json->Field("operation", read.operation);
    json->Field("site", read.site);
    json->Field("count", read.count);
    json->Field("bytes", read.bytes);
    json->EndObject();
  }
  json->EndArray();
}

void WriteWorkspaces(const Forecast& forecast, JsonWriter* json) {
  json->Key("workspaces");
  json->BeginArray();
  if (!forecast.processes.empty()) {
    for (const WorkspaceUse& use : forecast.workspaces()) {
      json->BeginObject(JsonLayout::kOneLine);
      json->Field("library", use.library);
      json->Field("set", use.set);
      json->Field("measured", use.measured);
      json->Field("similar", use.similar);
      json->Field("bounded", use.bounded);
      json->Field("unknown", use.unknown);
      json->Field("without_bound", use.without_bound);
      json->Field("largest_bytes", use.largest);
      json->Field("largest_bound_bytes", use.largest_bound);
      json->EndObject();
    }
  }
  json->EndArray();
}

void WriteContext(const Forecast& forecast, JsonWriter* json) {
  json->Key("context");
  if (forecast.processes.empty() || forecast.processes.front().reported.context.bytes == 0) return json->Null();
  const KnownSize& context = forecast.processes.front().reported.context;
  json->BeginObject(JsonLayout::kOneLine);
  json->Field("bytes", context.bytes);
  json->Field("known", context.known);
  json->EndObject();
}

void WriteConfidence(const Forecast& forecast, JsonWriter* json) {
  json->Key("confidence");
  json->BeginObject();
  json->Field("data_dependent", forecast.data_dependent);
  WritePeaks("peak_where_data_find_nothing", Or(forecast.with_zero), json);
  WritePeaks("peak_with_other_values", Or(forecast.with_other_values), json);
  WritePeaks("least_peak_with_other_values", Or(forecast.least_with_other_values), json);
  WritePeaks("peak_where_kernels_lag_behind", Or(forecast.with_late_events), json);
  WriteReads(forecast, json);
  json->Key("pinned");
  json->BeginObject();
  if (!forecast.processes.empty()) {
    for (const auto& [text, count] : forecast.processes.front().reported.pinned) json->Field(text, count);
  }
  json->EndObject();
  json->Key("unknown_workspaces");
  json->BeginArray(JsonLayout::kOneLine);
  if (!forecast.processes.empty()) {
    for (const std::string& library : UnknownLibraries(forecast.workspaces())) json->Value(library);
  }
  json->EndArray();
  WriteWorkspaces(forecast, json);
  WritePeaks("peak_where_workspaces_are_bounds", Or(forecast.with_bounds), json);
  WriteContext(forecast, json);
  json->EndObject();
}

void WriteWhatIfs(const Forecast& forecast, JsonWriter* json) {
  json->Key("what_if");
  json->BeginArray();
  for (const WhatIf& each : forecast.what_ifs) {
    json->BeginObject();
    json->Field("change", each.name);
    WritePeaks("peak", Or(each.peaks), json);
    json->Key("estimated_saving_bytes");
    each.saves.has_value() ? json->Value(*each.saves) : json->Null();
    json->Field("note", each.note);
    json->EndObject();
  }
  json->EndArray();
}

void WriteValues(absl::string_view key, const std::vector<std::pair<std::string, int64_t>>& values, JsonWriter* json) {
  json->Key(key);
  json->BeginObject(JsonLayout::kOneLine);
  for (const auto& [name, value] : values) json->Field(name, value);
  json->EndObject();
}

void WriteValuesOrNull(absl::string_view key, const std::vector<std::pair<std::string, int64_t>>& values,
                       JsonWriter* json) {
  if (!values.empty()) return WriteValues(key, values, json);
  json->Key(key);
  json->Null();
}

void WriteVaried(const Forecast& forecast, JsonWriter* json) {
  if (!forecast.searched) return;
  json->Key("vary");
  json->BeginObject();
  WriteValuesOrNull("largest", forecast.largest, json);
  WriteValuesOrNull("largest_where_data_find_nothing", forecast.largest_with_zero, json);
  json->Field("margin", forecast.margin);
  const VariedRun* const next = forecast.next_larger();
  WriteValuesOrNull("next_larger", next == nullptr ? decltype(forecast.largest)() : next->values, json);
  json->Key("runs");
  json->BeginArray();
  for (const VariedRun& run : forecast.varied) {
    json->BeginObject();
    WriteValues("values", run.values, json);
    json->Field("data_find_nothing", run.with_zero);
    WritePeaks("peak", Or(run.peaks), json);
    json->Field("fits", run.fits);
    json->Key("wanted_bytes");
    run.wanted == 0 ? json->Null() : json->Value(run.wanted);
    json->Field("note", run.note);
    json->EndObject();
  }
  json->EndArray();
  json->EndObject();
}

void WriteRange(const Assessment& assessment, JsonWriter* json) {
  json->Key("range");
  json->BeginObject(JsonLayout::kOneLine);
  json->Field("low_bytes", assessment.low);
  json->Field("likely_bytes", assessment.likely);
  json->Key("high_bytes");
  assessment.has_upper() ? json->Value(assessment.high) : json->Null();
  json->Field("bounded", assessment.bounded());
  json->EndObject();
  json->Key("doubts");
  json->BeginArray();
  for (const Doubt& doubt : assessment.doubts) {
    json->BeginObject();
    json->Field("kind", DoubtName(doubt.kind));
    json->Field("what", doubt.what);
    json->Field("less_bytes", doubt.less);
    json->Key("more_bytes");
    doubt.bounded ? json->Value(doubt.more) : json->Null();
    json->Field("settle", doubt.settle);
    json->EndObject();
  }
  json->EndArray();
}

void WriteShared(const Forecast& forecast, JsonWriter* json) {
  json->Key("shared_devices");
  json->BeginArray();
  for (const SharedDevice& shared : forecast.shared) {
    if (shared.processes.size() < 2) continue;
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("device", shared.device);
    json->Key("pids");
    json->BeginArray(JsonLayout::kOneLine);
    for (const size_t process : shared.processes) json->Value(forecast.processes[process].reported.pid);
    json->EndArray();
    json->Field("in_time_bytes", shared.in_time);
    json->Field("at_once_bytes", shared.at_once);
    json->EndObject();
  }
  json->EndArray();
}

void WriteTight(const Forecast& forecast, JsonWriter* json) {
  json->Key("tight");
  if (!forecast.fits_when_tight.has_value()) return json->Null();
  json->BeginObject();
  json->Field("runs_through", *forecast.fits_when_tight);
  json->Field("refused_requests", forecast.refused_when_tight);
  json->Field("largest_refused_bytes", forecast.largest_refused);
  WritePeaks("peak", Or(forecast.when_tight), json);
  json->EndObject();
}

}  // namespace

absl::string_view RunEndName(RunEnd end) {
  switch (end) {
    case RunEnd::kStable:
      return "stable";
    case RunEnd::kSteps:
      return "steps";
    case RunEnd::kEnded:
      return "ended";
    case RunEnd::kTimedOut:
      return "timed_out";
    case RunEnd::kSpins:
      return "spins";
    case RunEnd::kFailed:
      return "failed";
    case RunEnd::kCapability:
      return "capability";
  }
  return "";
}

absl::string_view HostReadKindName(HostReadKind kind) {
  switch (kind) {
    case HostReadKind::kShape:
      return "shape";
    case HostReadKind::kBranch:
      return "branch";
    case HostReadKind::kValue:
      return "value";
    case HostReadKind::kCopy:
      return "copy";
  }
  return "";
}

std::string ForecastJson(const Forecast& forecast, const std::function<void(JsonWriter*)>& write_moment) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  json.Field("schema_version", kJsonSchemaVersion);
  json.Field("command", "plan");
  json.Field("simulated", true);
  json.Key("command_line");
  json.BeginArray(JsonLayout::kOneLine);
  for (const std::string& word : forecast.command) json.Value(word);
  json.EndArray();
  WriteDevice(forecast, &json);
  WriteSimulatedRank(forecast, &json);
  const Assessment assessment = Assess(forecast);
  json.Field("verdict", VerdictName(assessment.verdict));
  json.Field("fits", assessment.verdict == Verdict::kFits);
  WriteRange(assessment, &json);
  WriteTight(forecast, &json);
  WritePeaks("peak", forecast.answered() ? &forecast.peaks() : nullptr, &json);
  json.Field("end", RunEndName(forecast.end));
  json.Field("exit_code", forecast.exit_code);
  json.Field("stuck_at", forecast.stuck_at);
  json.Field("seconds", forecast.seconds);
  WriteTime(forecast.time, &json);
  WriteProcesses(forecast, &json);
  json.Field("skew_bytes", forecast.skew());
  WriteShared(forecast, &json);
  WriteConfidence(forecast, &json);
  WriteWhatIfs(forecast, &json);
  WriteExplanation(forecast, &json);
  WriteVaried(forecast, &json);
  if (write_moment) write_moment(&json);
  json.EndObject();
  out += '\n';
  return out;
}

}  // namespace gpumem::plan
