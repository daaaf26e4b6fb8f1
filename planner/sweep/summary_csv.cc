// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/csv.h"
#include "base/utf8.h"
#include "planner/sweep/digest.h"
#include "planner/sweep/results.h"

namespace gpumem::plan {
namespace {

std::string BytesOrEmpty(uint64_t bytes) { return bytes == 0 ? "" : absl::StrCat(bytes); }

const std::vector<std::string>& FixedColumns() {
  static const auto* const columns = new std::vector<std::string>{"configuration",
                                                                  "state",
                                                                  "fits",
                                                                  "peak_allocated_bytes",
                                                                  "peak_reserved_bytes",
                                                                  "peak_process_bytes",
                                                                  "capacity_bytes",
                                                                  "seconds",
                                                                  "optimizer_steps",
                                                                  "parameters_bytes",
                                                                  "gradients_bytes",
                                                                  "per_sample_gradients_bytes",
                                                                  "optimizer_state_bytes",
                                                                  "activations_bytes",
                                                                  "other_bytes",
                                                                  "lost_events",
                                                                  "simulated",
                                                                  "exit_code",
                                                                  "trace",
                                                                  "reason"};
  return *columns;
}

std::vector<std::string> RecordOf(const SweepAnswer& answer, const SweepRow& row) {
  std::map<std::string, uint64_t> types;
  for (const PartBytes& type : MemoryTypes(row)) types[type.name] = type.bytes;
  const uint64_t all = SumOf(types);
  uint64_t named = 0;
  std::vector<std::string> of_types;
  for (const char* name : {"parameter", "gradient", "per_sample_gradient", "optimizer_state", "activation"}) {
    named += types[name];
    of_types.push_back(types.empty() || all == 0 ? "" : absl::StrCat(types[name]));
  }
  of_types.push_back(all == 0 ? "" : absl::StrCat(all - named));
  std::vector<std::string> record = {RowStateName(row.state),          row.state == RowState::kFits ? "true" : "false",
                                     BytesOrEmpty(row.peak_allocated), BytesOrEmpty(row.peak_reserved),
                                     BytesOrEmpty(row.peak_process),   BytesOrEmpty(row.capacity),
                                     absl::StrCat(row.seconds),        absl::StrCat(row.steps)};
  record.insert(record.end(), of_types.begin(), of_types.end());
  for (const std::string& text : {absl::StrCat(row.lost_events), std::string(answer.simulated ? "true" : "false"),
                                  absl::StrCat(row.exit_code), EscapeControls(row.trace), EscapeControls(row.reason)})
    record.push_back(text);
  return record;
}

std::string CsvLine(const std::vector<std::string>& record) {
  return absl::StrJoin(record, ",", [](std::string* out, const std::string& text) { out->append(CsvCell(text)); }) +
         "\r\n";
}

}  // namespace

std::string SummaryCsv(const SweepAnswer& answer) {
  const std::vector<std::string> axes = AxesOf(answer.rows);
  std::vector<std::string> heading = {FixedColumns().front()};
  for (const std::string& axis : axes)
    heading.push_back(absl::StrCat(absl::c_linear_search(FixedColumns(), axis) ? "axis_" : "", EscapeControls(axis)));
  heading.insert(heading.end(), FixedColumns().begin() + 1, FixedColumns().end());
  std::string out = CsvLine(heading);
  for (const SweepRow& row : answer.rows) {
    std::vector<std::string> record = {absl::StrCat(row.number)};
    for (const std::string& axis : axes) record.push_back(EscapeControls(ValueOn(row, axis)));
    for (std::string& text : RecordOf(answer, row)) record.push_back(std::move(text));
    out += CsvLine(record);
  }
  return out;
}

}  // namespace gpumem::plan
