// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/live_frame.h"

#include <cmath>

#include "answers/parts/categories.h"
#include "answers/report/json_parts.h"
#include "answers/report/trace_answer.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

template <typename T>
void FieldOrNull(absl::string_view key, bool known, const T& value, JsonWriter* json) {
  json->Key(key);
  known ? json->Value(value) : json->Null();
}

void WriteValues(absl::string_view key, const MeasureValues& values, JsonWriter* json) {
  json->Key(key);
  json->BeginObject(JsonLayout::kOneLine);
  WriteJsonValues(values, json);
  json->EndObject();
}

void WriteDevice(const LiveDevice& device, uint64_t origin_ns, JsonWriter* json) {
  json->BeginObject();
  json->Field("device", device.device);
  WriteJsonTextOrNull("name", device.name, !device.name.empty(), json);
  FieldOrNull("capacity_bytes", device.capacity != 0, device.capacity, json);
  WriteValues("now", device.now, json);
  WriteValues("peak", device.peak, json);
  json->Field("peak_bound", PeakBoundName(device.bound));
  json->Field("unsure", device.is_unsure);
  FieldOrNull("device_used_bytes", device.used.has_value(), device.used.value_or(0), json);
  FieldOrNull("process_used_bytes", device.own.has_value(), device.own.value_or(0), json);
  json->Key("curve");
  json->BeginArray();
  for (const TimelinePoint& point : device.curve) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("time_ns", point.time_ns - origin_ns);
    WriteJsonValues(point.max, json);
    json->EndObject();
  }
  json->EndArray();
  json->EndObject();
}

void WriteSteps(const LiveSteps& steps, JsonWriter* json) {
  json->Key("steps");
  json->BeginObject();
  json->Field("count", steps.count);
  FieldOrNull("last", steps.count != 0, steps.last, json);
  FieldOrNull("step_ns", steps.step_ns > 0, static_cast<uint64_t>(steps.step_ns), json);
  FieldOrNull("steps_per_second", steps.step_ns > 0, 1e9 / std::max(steps.step_ns, 1.0), json);
  FieldOrNull("last_peak_bytes", steps.count != 0, steps.level, json);
  json->Field("growth_bytes_per_step", steps.per_step);
  json->EndObject();
}

void WriteForecast(const Outlook& outlook, JsonWriter* json) {
  const Forecast& forecast = outlook.forecast;
  const bool reaches = forecast.kind == ForecastKind::kReaches || forecast.kind == ForecastKind::kFar;
  const auto steps = [&](absl::string_view key, double value) {
    const bool known = reaches && std::isfinite(value);
    FieldOrNull(key, known, known ? static_cast<uint64_t>(std::llround(value)) : 0, json);
  };
  json->Key("forecast");
  json->BeginObject();
  json->Field("kind", ForecastKindName(forecast.kind));
  json->Field("risk", RiskLevelName(outlook.risk));
  json->Field("sentence", outlook.sentence);
  FieldOrNull("limit_bytes", outlook.limit.high > 0, static_cast<uint64_t>(outlook.limit.high), json);
  steps("earliest_steps", forecast.earliest);
  steps("likely_steps", forecast.likely);
  steps("latest_steps", forecast.latest);
  json->EndObject();
}

void WriteLines(const LiveProcess& process, JsonWriter* json) {
  json->Key("lines");
  json->BeginArray();
  for (const LiveLine& line : process.lines) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("site", line.site);
    json->Field("through", line.through);
    json->Field("category", CategoryName(line.category));
    json->Field("bytes", line.bytes);
    json->Field("blocks", line.blocks);
    FieldOrNull("change_bytes", line.change.has_value(), line.change.value_or(0), json);
    json->EndObject();
  }
  json->EndArray();
}

void WriteProcess(const LiveProcess& process, JsonWriter* json) {
  json->BeginObject();
  json->Field("file", process.file);
  json->Field("program", process.process.program);
  FieldOrNull("pid", process.process.pid != 0, process.process.pid, json);
  FieldOrNull("rank", process.process.rank >= 0, process.process.rank, json);
  json->Field("host", process.process.hostname);
  json->Field("state", LiveStateName(process.state));
  json->Field("read", process.read);
  json->Field("file_bytes", process.file_bytes);
  json->Field("time_ns", process.now_ns);
  json->Field("events", process.events);
  json->Key("devices");
  json->BeginArray();
  for (const LiveDevice& device : process.devices) WriteDevice(device, process.origin_ns, json);
  json->EndArray();
  FieldOrNull("device", process.device >= 0, process.device, json);
  json->Field("measure", MeasureName(process.measure));
  json->Field("at_program_end", process.at_program_end);
  json->Key("categories");
  Datum::If(process.device >= 0, CategoriesDatum(process.categories)).Write(json);
  json->Field("lines_bytes", process.lines_bytes);
  FieldOrNull("changes_since_ns", process.changes_since_ns != 0, process.changes_since_ns, json);
  WriteLines(process, json);
  WriteSteps(process.steps, json);
  WriteForecast(process.outlook, json);
  json->Field("failed_requests", process.failed_requests);
  json->Key("losses");
  LossesDatum(process.losses).Write(json);
  json->Field("last_mark", process.last_mark);
  json->Field("problem", process.problem);
  json->EndObject();
}

}  // namespace

std::string LiveJson(const LiveFrame& frame, JsonLayout layout) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject(layout);
  json.Field("schema_version", kJsonSchemaVersion);
  json.Field("command", "live");
  json.Field("place", frame.place);
  json.Key("processes");
  json.BeginArray();
  for (const LiveProcess& process : frame.processes) WriteProcess(process, &json);
  json.EndArray();
  json.EndObject();
  return out + "\n";
}

}  // namespace gpumem
