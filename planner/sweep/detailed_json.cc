// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/digest.h"
#include "planner/sweep/sweep_json.h"
#include "planner/sweep/sweep_json_parts.h"

namespace gpumem::plan {
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
