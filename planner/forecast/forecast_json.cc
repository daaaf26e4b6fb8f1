// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/forecast/forecast_json.h"

#include "json/parts.h"

namespace gpumem {
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
  json->Key("runs");
  json->BeginArray();
  for (const VariedRun& run : forecast.varied) {
    json->BeginObject();
    WriteValues("values", run.values, json);
    json->Field("data_find_nothing", run.with_zero);
    WritePeaks("peak", Or(run.peaks), json);
    json->Field("fits", run.fits);
    json->Field("note", run.note);
    json->EndObject();
  }
  json->EndArray();
  json->EndObject();
}

// The answer in one word.
absl::string_view Verdict(const Forecast& forecast) {
  if (forecast.is_open()) return "unknown";
  if (forecast.fits()) return forecast.peaks().process <= forecast.capacity() ? "fits" : "fits_tightly";
  return forecast.depends_on_data() ? "depends_on_data" : "does_not_fit";
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
  json.Field("verdict", Verdict(forecast));
  json.Field("fits", forecast.fits());
  WritePeaks("peak", forecast.answered() ? &forecast.peaks() : nullptr, &json);
  json.Field("end", RunEndName(forecast.end));
  json.Field("exit_code", forecast.exit_code);
  json.Field("stuck_at", forecast.stuck_at);
  json.Field("seconds", forecast.seconds);
  WriteProcesses(forecast, &json);
  json.Field("skew_bytes", forecast.skew());
  WriteConfidence(forecast, &json);
  WriteWhatIfs(forecast, &json);
  WriteVaried(forecast, &json);
  if (write_moment) write_moment(&json);
  json.EndObject();
  out += '\n';
  return out;
}

}  // namespace gpumem
