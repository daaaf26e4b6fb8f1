// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/results.h"

#include <filesystem>
#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/output_file.h"
#include "base/status_macros.h"
#include "base/text_formats.h"
#include "base/utf8.h"
#include "planner/charts/picture.h"
#include "planner/sweep/digest.h"
#include "planner/sweep/pictures/pictures.h"
#include "planner/sweep/sweep_document.h"
#include "render/draw.h"

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kTimelineStem = "memory_timeline_config_";

// Writes into one directory and remembers what.
class Writer {
 public:
  explicit Writer(std::string directory) : directory_(std::move(directory)) {}

  absl::Status File(const std::string& name, const std::string& bytes) {
    GPUMEM_RETURN_IF_ERROR(
        WriteOutput(absl::StrCat(directory_, "/", name), bytes, {.hint = "Give another place with --results-dir"}));
    written_.files.push_back(name);
    return absl::OkStatus();
  }

  absl::Status Picture(const std::string& stem, const plots::Figure& figure) {
    GPUMEM_ASSIGN_OR_RETURN(const std::string png, plots::PngBytes(plots::DrawFigure(figure)));
    return File(absl::StrCat(stem, ".png"), png);
  }

  void Note(std::string note) { written_.notes.push_back(std::move(note)); }

  // Timelines of an earlier sweep into the same directory. Only names that are ours to the letter.
  void RemoveOtherTimelines() const {
    std::error_code error;
    std::vector<fs::path> stale;
    for (fs::directory_iterator entry(directory_, error), end; !error && entry != end; entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      absl::string_view number = name;
      int ignored = 0;
      if (absl::ConsumePrefix(&number, kTimelineStem) && absl::ConsumeSuffix(&number, ".png") &&
          absl::SimpleAtoi(number, &ignored) && !absl::c_linear_search(written_.files, name))
        stale.push_back(entry->path());
    }
    for (const fs::path& path : stale) RemovePlainFile(path.string());
  }

  const WrittenResults& written() const { return written_; }

 private:
  std::string directory_;
  WrittenResults written_;
};

absl::Status WritePictures(const SweepAnswer& answer, Writer* writer) {
  GPUMEM_RETURN_IF_ERROR(writer->Picture("memory_analysis_overview", OverviewFigure(answer)));
  GPUMEM_RETURN_IF_ERROR(writer->Picture("memory_heatmap", HeatmapFigure(answer)));
  GPUMEM_RETURN_IF_ERROR(writer->Picture("detailed_memory_analysis", DetailedFigure(answer)));
  GPUMEM_RETURN_IF_ERROR(writer->Picture("operation_level_breakdown", OperationsFigure(answer)));
  int without = 0;
  for (const SweepRow& row : answer.rows) {
    without += row.timeline.empty();
    if (row.timeline.empty()) continue;
    GPUMEM_RETURN_IF_ERROR(writer->Picture(absl::StrCat(kTimelineStem, row.number), TimelineFigure(answer, row)));
  }
  if (without > 0) {
    writer->Note(absl::StrCat(without, without == 1 ? " configuration has" : " configurations have",
                              " no timeline: nothing of it was recorded."));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WrittenResults> WriteResults(const SweepAnswer& answer, const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return absl::InternalError(absl::StrCat("cannot make ", directory, ": ", error.message()));
  Writer writer(directory);
  GPUMEM_RETURN_IF_ERROR(writer.File("memory_profile_summary.csv", SummaryCsv(answer)));
  GPUMEM_RETURN_IF_ERROR(writer.File("detailed_memory_results.json", ToJson(DetailedDocument(answer))));
  GPUMEM_RETURN_IF_ERROR(WritePictures(answer, &writer));
  writer.RemoveOtherTimelines();
  // Last, since it names the others: where it is, all are.
  const std::string name = "memory_profile_results.json";
  SweepAnswer whole = answer;
  whole.directory = directory;
  whole.files = writer.written().files;
  whole.files.insert(whole.files.begin(), name);
  whole.notes.insert(whole.notes.end(), writer.written().notes.begin(), writer.written().notes.end());
  WrittenResults written{whole.files, writer.written().notes};
  GPUMEM_RETURN_IF_ERROR(writer.File(name, ToJson(SweepDocument(whole))));
  return written;
}

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
