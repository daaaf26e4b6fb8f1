// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/row_json.h"

namespace gpumem::plan {

void WriteBytes(absl::string_view key, const std::map<std::string, uint64_t>& bytes, JsonWriter* json) {
  json->Key(key);
  json->BeginObject(JsonLayout::kOneLine);
  for (const auto& [name, count] : bytes) json->Field(name, count);
  json->EndObject();
}

void WriteStages(const SweepRow& row, JsonWriter* json) {
  json->Key("stages");
  json->BeginArray();
  for (const RowStage& stage : row.stages) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("name", stage.name);
    json->Field("seconds", stage.seconds);
    json->Field("peak_allocated_bytes", stage.peak_allocated);
    json->Field("growth_bytes", stage.growth_bytes);
    json->Field("count", stage.count);
    json->EndObject();
  }
  json->EndArray();
}

namespace {

void WriteComponents(const SweepRow& row, JsonWriter* json) {
  json->Key("components");
  json->BeginArray();
  for (const RowComponent& component : row.components) {
    json->BeginObject();
    json->Field("name", component.name);
    WriteBytes("at_peak", component.at_peak, json);
    WriteBytes("allocated", component.allocated, json);
    json->EndObject();
  }
  json->EndArray();
}

void WriteTimeline(const SweepRow& row, JsonWriter* json) {
  json->Key("timeline");
  json->BeginArray();
  for (const RowPoint& point : row.timeline) {
    json->BeginArray(JsonLayout::kOneLine);
    json->Value(point.seconds);
    json->Value(point.allocated);
    json->Value(point.reserved);
    json->Value(point.process);
    json->EndArray();
  }
  json->EndArray();
}

}  // namespace

void WriteRow(const SweepRow& row, JsonWriter* json) {
  json->BeginObject();
  json->Field("row_version", kRowVersion);
  json->Field("number", row.number);
  json->Key("values");  // pairs: the order of the axes counts
  json->BeginArray(JsonLayout::kOneLine);
  for (const auto& [axis, value] : row.values) {
    json->BeginArray();
    json->Value(axis);
    json->Value(value);
    json->EndArray();
  }
  json->EndArray();
  json->Field("state", RowStateName(row.state));
  json->Field("reason", row.reason);
  json->Field("exit_code", row.exit_code);
  json->Field("seconds", row.seconds);
  json->Field("steps", row.steps);
  json->Field("trace", row.trace);
  json->Field("peak_allocated_bytes", row.peak_allocated);
  json->Field("peak_reserved_bytes", row.peak_reserved);
  json->Field("peak_process_bytes", row.peak_process);
  json->Field("capacity_bytes", row.capacity);
  json->Field("lost_events", row.lost_events);
  WriteBytes("categories", row.categories, json);
  WriteBytes("parts", row.parts, json);
  WriteBytes("tensors", row.tensors, json);
  WriteStages(row, json);
  WriteComponents(row, json);
  WriteTimeline(row, json);
  json->EndObject();
}

std::string RowJson(const SweepRow& row) {
  std::string out;
  JsonWriter json(&out);
  WriteRow(row, &json);
  return out + "\n";
}

}  // namespace gpumem::plan
