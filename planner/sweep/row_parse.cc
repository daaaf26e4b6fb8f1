// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "planner/sweep/row_json.h"

namespace gpumem {
namespace {

using nlohmann::json;

constexpr size_t kMaxBytes = 64 << 20;  // of a row's text; the longest that is written is some 100 KiB

// Reads members and remembers the first that is not what it should be; after that everything reads as nothing.
class Reader {
 public:
  explicit Reader(const json& root) : root_(root) {}

  const std::string& problem() const { return problem_; }

  const json* Member(const json& object, const char* key, const std::string& place) {
    const auto found = object.is_object() ? object.find(key) : object.end();
    if (object.is_object() && found != object.end()) return &*found;
    Fail(absl::StrCat(place, key), "is missing");
    return nullptr;
  }

  template <typename Number>
  void Whole(const json& object, const char* key, const std::string& place, Number* number) {
    if (const json* member = Member(object, key, place)) WholeValue(*member, absl::StrCat(place, key), number);
  }

  template <typename Number>
  void WholeValue(const json& value, const std::string& place, Number* number) {
    constexpr Number kMin = std::numeric_limits<Number>::min(), kMax = std::numeric_limits<Number>::max();
    if (value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(kMax)) {
      *number = static_cast<Number>(value.get<uint64_t>());
    } else if (value.is_number_integer() && !value.is_number_unsigned() && std::is_signed_v<Number> &&
               value.get<int64_t>() >= static_cast<int64_t>(kMin)) {
      *number = static_cast<Number>(value.get<int64_t>());
    } else {
      Fail(place, "is no whole number of its range");
    }
  }

  void Seconds(const json& object, const char* key, const std::string& place, double* seconds) {
    if (const json* member = Member(object, key, place)) SecondsValue(*member, absl::StrCat(place, key), seconds);
  }

  void SecondsValue(const json& value, const std::string& place, double* seconds) {
    if (!value.is_number()) return Fail(place, "is no number");
    const double read = value.get<double>();
    if (!std::isfinite(read) || read < 0) return Fail(place, "is no time");
    *seconds = read;
  }

  void Text(const json& object, const char* key, const std::string& place, std::string* text) {
    const json* member = Member(object, key, place);
    if (member == nullptr) return;
    if (!member->is_string()) return Fail(absl::StrCat(place, key), "is no text");
    *text = member->get<std::string>();
  }

  void Bytes(const json& object, const char* key, const std::string& place, std::map<std::string, uint64_t>* bytes) {
    const json* member = Member(object, key, place);
    if (member == nullptr) return;
    if (!member->is_object()) return Fail(absl::StrCat(place, key), "is no object");
    for (const auto& [name, value] : member->items())
      WholeValue(value, absl::StrCat(place, key, ".", name), &(*bytes)[name]);
  }

  // The elements of an array, each with its place in words: "stages[2]".
  template <typename Function>
  void Each(const char* key, const Function& function) {
    const json* member = Member(root_, key, "");
    if (member == nullptr) return;
    if (!member->is_array()) return Fail(key, "is no list");
    for (size_t i = 0; i < member->size() && problem_.empty(); ++i)
      function((*member)[i], absl::StrCat(key, "[", i, "]"));
  }

  void Fail(absl::string_view place, absl::string_view what) {
    if (problem_.empty()) problem_ = absl::StrCat(place, " ", what);
  }

 private:
  const json& root_;
  std::string problem_;
};

void ReadState(const json& root, Reader* reader, RowState* state) {
  std::string name;
  reader->Text(root, "state", "", &name);
  for (const RowState each : {RowState::kFits, RowState::kOutOfMemory, RowState::kFailed, RowState::kTimedOut,
                              RowState::kSpins, RowState::kNoCuda}) {
    if (name == RowStateName(each)) {
      *state = each;
      return;
    }
  }
  reader->Fail("state", "is none that is known");
}

void ReadPeaks(const json& root, Reader* reader, SweepRow* row) {
  reader->Whole(root, "peak_allocated_bytes", "", &row->peak_allocated);
  reader->Whole(root, "peak_reserved_bytes", "", &row->peak_reserved);
  reader->Whole(root, "peak_process_bytes", "", &row->peak_process);
  reader->Whole(root, "capacity_bytes", "", &row->capacity);
  reader->Whole(root, "lost_events", "", &row->lost_events);
  reader->Bytes(root, "categories", "", &row->categories);
  reader->Bytes(root, "parts", "", &row->parts);
  reader->Bytes(root, "tensors", "", &row->tensors);
}

void ReadLists(Reader* reader, SweepRow* row) {
  reader->Each("values", [&](const json& pair, const std::string& place) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string())
      return reader->Fail(place, "is no pair of an axis and its value");
    row->values.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
  });
  reader->Each("stages", [&](const json& value, const std::string& place) {
    RowStage stage;
    const std::string within = place + ".";
    reader->Text(value, "name", within, &stage.name);
    reader->Seconds(value, "seconds", within, &stage.seconds);
    reader->Whole(value, "peak_allocated_bytes", within, &stage.peak_allocated);
    reader->Whole(value, "growth_bytes", within, &stage.growth_bytes);
    reader->Whole(value, "count", within, &stage.count);
    row->stages.push_back(std::move(stage));
  });
  reader->Each("components", [&](const json& value, const std::string& place) {
    RowComponent component;
    const std::string within = place + ".";
    reader->Text(value, "name", within, &component.name);
    reader->Bytes(value, "at_peak", within, &component.at_peak);
    reader->Bytes(value, "allocated", within, &component.allocated);
    row->components.push_back(std::move(component));
  });
  reader->Each("timeline", [&](const json& value, const std::string& place) {
    if (!value.is_array() || value.size() != 4) return reader->Fail(place, "is no point of four numbers");
    RowPoint point;
    reader->SecondsValue(value[0], absl::StrCat(place, "[0]"), &point.seconds);
    reader->WholeValue(value[1], absl::StrCat(place, "[1]"), &point.allocated);
    reader->WholeValue(value[2], absl::StrCat(place, "[2]"), &point.reserved);
    reader->WholeValue(value[3], absl::StrCat(place, "[3]"), &point.process);
    row->timeline.push_back(point);
  });
}

}  // namespace

absl::StatusOr<SweepRow> ParseRow(absl::string_view text) {
  if (text.size() > kMaxBytes) return absl::DataLossError("the row is larger than any row is");
  const json root = json::parse(text.begin(), text.end(), /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return absl::DataLossError("the row is no JSON object");
  Reader reader(root);
  int version = 0;
  reader.Whole(root, "row_version", "", &version);
  if (reader.problem().empty() && version != kRowVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the row is of version ", version, "; this gpumem reads version ", kRowVersion));
  }
  SweepRow row;
  reader.Whole(root, "number", "", &row.number);
  ReadState(root, &reader, &row.state);
  reader.Text(root, "reason", "", &row.reason);
  reader.Whole(root, "exit_code", "", &row.exit_code);
  reader.Seconds(root, "seconds", "", &row.seconds);
  reader.Whole(root, "steps", "", &row.steps);
  reader.Text(root, "trace", "", &row.trace);
  ReadPeaks(root, &reader, &row);
  ReadLists(&reader, &row);
  if (!reader.problem().empty()) return absl::DataLossError(absl::StrCat("the row is damaged: ", reader.problem()));
  return row;
}

}  // namespace gpumem
