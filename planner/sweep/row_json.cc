// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/row_json.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/json_reader.h"

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

namespace {

constexpr size_t kLongestRow = 64 << 20;  // of a row's text; the longest that is written is some 100 KiB

void ReadTime(const char* key, JsonReader* reader, double* seconds) {
  reader->Read(key, seconds);
  if (*seconds < 0) reader->Fail(key, "is not a time");
}

void ReadState(JsonReader* reader, RowState* state) {
  std::string name;
  reader->Read("state", &name);
  for (const RowState each : {RowState::kFits, RowState::kOutOfMemory, RowState::kFailed, RowState::kTimedOut,
                              RowState::kSpins, RowState::kNoCuda}) {
    if (name == RowStateName(each)) {
      *state = each;
      return;
    }
  }
  reader->Fail("state", "is none that is known");
}

void ReadPeaks(JsonReader* reader, SweepRow* row) {
  reader->Read("peak_allocated_bytes", &row->peak_allocated);
  reader->Read("peak_reserved_bytes", &row->peak_reserved);
  reader->Read("peak_process_bytes", &row->peak_process);
  reader->Read("capacity_bytes", &row->capacity);
  reader->Read("lost_events", &row->lost_events);
  reader->Read("categories", &row->categories);
  reader->Read("parts", &row->parts);
  reader->Read("tensors", &row->tensors);
}

void ReadLists(JsonReader* reader, SweepRow* row) {
  reader->Read("values", &row->values);
  reader->Each("stages", [&](JsonReader* value) {
    RowStage& stage = row->stages.emplace_back();
    value->Read("name", &stage.name);
    ReadTime("seconds", value, &stage.seconds);
    value->Read("peak_allocated_bytes", &stage.peak_allocated);
    value->Read("growth_bytes", &stage.growth_bytes);
    value->Read("count", &stage.count);
  });
  reader->Each("components", [&](JsonReader* value) {
    RowComponent& component = row->components.emplace_back();
    value->Read("name", &component.name);
    value->Read("at_peak", &component.at_peak);
    value->Read("allocated", &component.allocated);
  });
  reader->Each("timeline", [&](JsonReader* value) {
    RowPoint& point = row->timeline.emplace_back();
    value->ReadTuple(&point.seconds, &point.allocated, &point.reserved, &point.process);
    if (point.seconds < 0) value->Fail("[0]", "is not a time");
  });
}

}  // namespace

absl::StatusOr<SweepRow> ParseRow(absl::string_view text) {
  if (text.size() > kLongestRow) return absl::DataLossError("the row is larger than any row is");
  const absl::StatusOr<nlohmann::json> root = ParseJson(text);
  if (!root.ok() || !root->is_object()) return absl::DataLossError("the row is not a JSON object");
  JsonReader reader(*root);
  int version = 0;
  reader.Read("row_version", &version);
  if (reader.ok() && version != kRowVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the row is of version ", version, "; this gpumemshim reads version ", kRowVersion));
  }
  SweepRow row;
  reader.Read("number", &row.number);
  ReadState(&reader, &row.state);
  reader.Read("reason", &row.reason);
  reader.Read("exit_code", &row.exit_code);
  ReadTime("seconds", &reader, &row.seconds);
  reader.Read("steps", &row.steps);
  reader.Read("trace", &row.trace);
  ReadPeaks(&reader, &row);
  ReadLists(&reader, &row);
  if (!reader.ok()) return absl::DataLossError(absl::StrCat("the row is damaged: ", reader.problem()));
  return row;
}

}  // namespace gpumem::plan
