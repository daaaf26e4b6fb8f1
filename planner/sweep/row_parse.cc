// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/json_reader.h"
#include "planner/sweep/row_json.h"

namespace gpumem::plan {
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
