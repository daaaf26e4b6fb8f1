// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/row_json.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/json_reader.h"

namespace gpumem::plan {

Datum BytesDatum(const std::map<std::string, uint64_t>& bytes) {
  std::vector<Member> members;
  for (const auto& [name, count] : bytes) members.push_back({name, count});
  return Datum::Object(std::move(members), JsonLayout::kOneLine);
}

Datum StagesDatum(const SweepRow& row) {
  static const auto* const kColumns = new std::vector<AnswerColumn<RowStage>>{
      {"name", "", &RowStage::name},
      {"seconds", "duration; of a configuration, of the whole run", &RowStage::seconds},
      {"peak_allocated_bytes", "", &RowStage::peak_allocated},
      {"growth_bytes", "memory that it left, summed over its `count` stretches", &RowStage::growth_bytes},
      {"count", "how often it was entered", &RowStage::count}};
  std::vector<Datum> stages;
  for (const RowStage& stage : row.stages) stages.push_back(ObjectOf(*kColumns, stage));
  return Datum::List(std::move(stages));
}

namespace {

Datum KeptComponents(const SweepRow& row) {
  std::vector<Datum> components;
  for (const RowComponent& component : row.components) {
    components.push_back(Datum::Object({{"name", component.name},
                                        {"at_peak", BytesDatum(component.at_peak)},
                                        {"allocated", BytesDatum(component.allocated)}}));
  }
  return Datum::List(std::move(components));
}

Datum KeptTimeline(const SweepRow& row) {
  std::vector<Datum> points;
  for (const RowPoint& point : row.timeline) {
    points.push_back(
        Datum::List({point.seconds, point.allocated, point.reserved, point.process}, JsonLayout::kOneLine));
  }
  return Datum::List(std::move(points));
}

}  // namespace

std::string RowJson(const SweepRow& row) {
  std::vector<Datum> values;  // pairs: the order of the axes counts
  for (const auto& [axis, value] : row.values) values.push_back(Datum::List({axis, value}));
  std::string out;
  JsonWriter json(&out);
  Datum::Object({{"row_version", kRowVersion},
                 {"number", row.number},
                 {"values", Datum::List(std::move(values), JsonLayout::kOneLine)},
                 {"state", RowStateName(row.state)},
                 {"reason", row.reason},
                 {"exit_code", row.exit_code},
                 {"seconds", row.seconds},
                 {"steps", row.steps},
                 {"trace", row.trace},
                 {"peak_allocated_bytes", row.peak_allocated},
                 {"peak_reserved_bytes", row.peak_reserved},
                 {"peak_process_bytes", row.peak_process},
                 {"capacity_bytes", row.capacity},
                 {"lost_events", row.lost_events},
                 {"unknown_reads", row.unknown_reads},
                 {"categories", BytesDatum(row.categories)},
                 {"parts", BytesDatum(row.parts)},
                 {"tensors", BytesDatum(row.tensors)},
                 {"stages", StagesDatum(row)},
                 {"components", KeptComponents(row)},
                 {"timeline", KeptTimeline(row)}})
      .Write(&json);
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
  reader->Read("unknown_reads", &row->unknown_reads);
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
