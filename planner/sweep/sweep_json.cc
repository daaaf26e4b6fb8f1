// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/sweep_json.h"

#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "answers/report/json_parts.h"
#include "planner/sweep/digest.h"

namespace gpumem::plan {
namespace {

void WriteFit(absl::string_view key, const ScalingFit& fit, JsonWriter* json) {
  json->Key(key);
  if (fit.model == ScalingModel::kNone) return json->Null();
  json->BeginObject(JsonLayout::kOneLine);
  json->Field("model", ScalingModelName(fit.model));
  json->Field("constant_bytes", fit.constant);
  json->Field("linear_bytes", fit.linear);
  json->Field("quadratic_bytes", fit.quadratic);
  json->Field("r_squared", fit.r_squared);
  json->Field("largest_relative_error", fit.largest_relative_error);
  json->EndObject();
}

template <typename T>
void WriteList(absl::string_view key, const std::vector<T>& values, JsonWriter* json) {
  json->Key(key);
  json->BeginArray(JsonLayout::kOneLine);
  for (const T& value : values) json->Value(value);
  json->EndArray();
}

void WriteScaling(const SweepAnswer& answer, JsonWriter* json) {
  json->Key("scaling");
  json->BeginArray();
  for (const AxisScaling& scaling : answer.scaling) {
    json->BeginObject();
    json->Field("axis", scaling.axis);
    json->Field("basis", ScalingBasisName(scaling.basis));
    json->Field("sentence", ScalingSentence(scaling, answer.language));
    WriteFit("peak_allocated", scaling.allocated, json);
    WriteFit("peak_reserved", scaling.reserved, json);
    json->Field("weakly_supported", scaling.weak);
    json->Field("small_effect", scaling.small);
    WriteList("at_values", scaling.values, json);
    WriteList("allocated_bytes", scaling.allocated_bytes, json);
    WriteList("reserved_bytes", scaling.reserved_bytes, json);
    WriteValues("fixed", scaling.fixed, json);
    json->Field("comparisons", scaling.groups);
    json->Field("agreeing_comparisons", scaling.agreeing);
    json->EndObject();
  }
  json->EndArray();
}

void WriteConfiguration(const SweepRow& row, JsonWriter* json) {
  json->BeginObject();
  json->Field("number", row.number);
  WriteValues("values", row.values, json);
  json->Field("state", RowStateName(row.state));
  json->Field("fits", row.state == RowState::kFits);
  json->Field("reason", row.reason);
  json->Field("exit_code", row.exit_code);
  WriteBytesOrNull("peak_allocated_bytes", row.peak_allocated, json);
  WriteBytesOrNull("peak_reserved_bytes", row.peak_reserved, json);
  WriteBytesOrNull("peak_process_bytes", row.peak_process, json);
  WriteBytesOrNull("capacity_bytes", row.capacity, json);
  json->Field("seconds", row.seconds);
  json->Field("optimizer_steps", row.steps);
  json->Field("lost_events", row.lost_events);
  json->Key("trace");
  row.trace.empty() ? json->Null() : json->Value(row.trace);
  WriteStages(row, json);
  json->EndObject();
}

void WriteNumberOrNull(absl::string_view key, const SweepRow* row, JsonWriter* json) {
  json->Key(key);
  row == nullptr ? json->Null() : json->Value(row->number);
}

void WriteAxes(const SweepAnswer& answer, JsonWriter* json) {
  json->Key("axes");
  json->BeginArray();
  for (const std::string& axis : AxesOf(answer.rows)) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("name", axis);
    WriteList("tried", ValuesOf(answer.rows, axis), json);
    json->EndObject();
  }
  json->EndArray();
}

}  // namespace

void WriteHead(const SweepAnswer& answer, JsonWriter* json) {
  json->Field("schema_version", kJsonSchemaVersion);
  json->Field("command", "sweep");
  json->Field("gpumemshim_version", answer.version);
  json->Field("simulated", answer.simulated);
  json->Field("mode", answer.simulated ? "simulated" : "gpu");
  WriteList("command_line", answer.command, json);
  json->Field("device", answer.device);
  WriteBytesOrNull("device_bytes", answer.capacity, json);
  json->Field("steps", answer.steps);
  json->Field("start_realtime_ns", answer.started_realtime_ns);
  json->Field("duration_seconds", answer.seconds);
}

void WriteValues(absl::string_view key, const Configuration& values, JsonWriter* json) {
  json->Key(key);
  json->BeginObject(JsonLayout::kOneLine);
  std::set<std::string> written;
  for (const auto& [axis, value] : values) {
    if (!written.insert(axis).second) continue;  // twice the same key would be no good JSON
    int64_t number = 0;
    const bool is_number = absl::SimpleAtoi(value, &number) && absl::StrCat(number) == value;
    json->Key(axis);
    is_number ? json->Value(number) : json->Value(value);
  }
  json->EndObject();
}

void WriteBytesOrNull(absl::string_view key, uint64_t bytes, JsonWriter* json) {
  json->Key(key);
  bytes == 0 ? json->Null() : json->Value(bytes);
}

std::string SweepJson(const SweepAnswer& answer) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  WriteHead(answer, &json);
  json.Field("not_run", answer.left);
  WriteAxes(answer, &json);
  json.Field("margin", answer.margin);
  WriteNumberOrNull("largest_that_fits", LargestThatFits(answer.rows, answer.margin), &json);
  WriteNumberOrNull("next_larger", NextAfterLargest(answer.rows, answer.margin), &json);
  WriteNumberOrNull("least_memory", LeastThatFits(answer.rows), &json);
  WriteScaling(answer, &json);
  json.Key("configurations");
  json.BeginArray();
  for (const SweepRow& row : answer.rows) WriteConfiguration(row, &json);
  json.EndArray();
  json.Field("directory", answer.directory);
  WriteList("files", answer.files, &json);
  WriteList("notes", answer.notes, &json);
  json.EndObject();
  return out + "\n";
}

namespace {

// Each of these is always there, so that a script need not ask; all others are in "others".
void WriteMemoryTypes(const SweepRow& row, JsonWriter* json) {
  constexpr std::pair<const char*, const char*> kNames[] = {{"parameters", "parameter"},
                                                            {"gradients", "gradient"},
                                                            {"per_sample_gradients", "per_sample_gradient"},
                                                            {"optimizer_state", "optimizer_state"},
                                                            {"activations", "activation"}};
  std::map<std::string, uint64_t> types;
  for (const PartBytes& type : MemoryTypes(row)) types[type.name] = type.bytes;
  json->Key("memory_types");
  json->BeginObject();
  for (const auto& [key, name] : kNames) {
    json->Field(key, types[name]);
    types.erase(name);
  }
  json->Key("others");
  json->BeginObject(JsonLayout::kOneLine);
  for (const auto& [name, bytes] : types) json->Field(name, bytes);
  json->EndObject();
  json->EndObject();
}

void WriteOperations(const std::vector<PartBytes>& operations, JsonWriter* json) {
  json->Key("operations");
  json->BeginObject(JsonLayout::kOneLine);
  for (const PartBytes& operation : operations) json->Field(operation.name, operation.bytes);
  json->EndObject();
}

void WriteAllComponents(const SweepRow& row, JsonWriter* json) {
  json->Key("components");
  json->BeginArray();
  for (const RowComponent& component : row.components) {
    json->BeginObject();
    json->Field("name", component.name);
    json->Field("bytes_at_peak", SumOf(component.at_peak));
    WriteBytes("by_category_at_peak", component.at_peak, json);
    WriteBytes("allocated_by_stage", component.allocated, json);
    WriteOperations(Operations(component.allocated), json);
    json->EndObject();
  }
  json->EndArray();
}

// Columns rather than points: a third of the text, and ready for a data frame.
void WriteWholeTimeline(const SweepRow& row, JsonWriter* json) {
  json->Key("timeline");
  json->BeginObject();
  const auto column = [&](absl::string_view key, auto member) {
    json->Key(key);
    json->BeginArray(JsonLayout::kOneLine);
    for (const RowPoint& point : row.timeline) json->Value(point.*member);
    json->EndArray();
  };
  column("seconds", &RowPoint::seconds);
  column("allocated_bytes", &RowPoint::allocated);
  column("reserved_bytes", &RowPoint::reserved);
  column("process_bytes", &RowPoint::process);
  json->EndObject();
}

}  // namespace

std::string DetailedJson(const SweepAnswer& answer) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  WriteHead(answer, &json);
  json.Key("configurations");
  json.BeginArray();
  for (const SweepRow& row : answer.rows) {
    json.BeginObject();
    json.Field("number", row.number);
    WriteValues("values", row.values, &json);
    json.Field("state", RowStateName(row.state));
    WriteBytesOrNull("peak_allocated_bytes", row.peak_allocated, &json);
    WriteMemoryTypes(row, &json);
    WriteBytes("categories", row.categories, &json);
    WriteBytes("parts", row.parts, &json);
    WriteBytes("tensors", row.tensors, &json);
    WriteStages(row, &json);
    WriteOperations(Operations(row), &json);
    WriteAllComponents(row, &json);
    WriteWholeTimeline(row, &json);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return out + "\n";
}

}  // namespace gpumem::plan
