// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/results.h"

#include <filesystem>
#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/output_file.h"
#include "base/status_macros.h"
#include "planner/charts/png.h"
#include "planner/sweep/pictures/pictures.h"
#include "planner/sweep/sweep_json.h"

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
  GPUMEM_RETURN_IF_ERROR(writer.File("detailed_memory_results.json", DetailedJson(answer)));
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
  GPUMEM_RETURN_IF_ERROR(writer.File(name, SweepJson(whole)));
  return written;
}

}  // namespace gpumem::plan
