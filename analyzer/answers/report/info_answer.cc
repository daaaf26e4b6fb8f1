// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "answers/report/sections.h"
#include "answers/report/trace_answer.h"
#include "base/format.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

void AddMap(absl::string_view title, const std::map<std::string, std::string>& values, Document* answer) {
  if (values.empty()) return;
  answer->Gap();
  answer->Line(title, Tone::kHeading);
  std::vector<Page::Row> rows;
  rows.reserve(values.size());
  for (const auto& [name, value] : values) rows.push_back({name, value});
  answer->Cells({Align::kLeft, Align::kLeft}, rows, /*heading=*/false);
}

void AddCounts(const ReportInput& input, const FileCounts& counts, Document* answer) {
  const Analysis& analysis = *input.analysis;
  answer->Gap();
  answer->Line("Counts", Tone::kHeading);
  std::vector<Page::Row> rows = {{"processes in the file", FormatCount(counts.sections)},
                                 {"packets", FormatCount(counts.packets)}};
  const uint64_t events = analysis.events.torch + analysis.events.runtime + analysis.events.driver;
  rows.push_back({"events", FormatCount(events)});
  if (analysis.recovered_events > 0)
    rows.push_back({"  from the ring of the killed process", FormatCount(analysis.recovered_events)});
  if (events > 0) {
    const double bytes = static_cast<double>(analysis.file_bytes) / static_cast<double>(events);
    rows.push_back({"bytes an event", absl::StrFormat("%.1f", bytes)});
  }
  // Marks, steps and what autograd keeps are in the file, too, and no events of memory.
  uint64_t of_every_kind = 0;
  for (const auto& [kind, count] : analysis.events.by_kind) of_every_kind += count;
  rows.push_back({"entries of every kind", FormatCount(of_every_kind)});
  for (const auto& [kind, count] : analysis.events.by_kind)
    rows.push_back({absl::StrCat("  ", absl::AsciiStrToLower(kind)), FormatCount(count)});
  rows.push_back({"stack nodes", FormatCount(counts.stack_nodes)});
  rows.push_back({"frames", FormatCount(counts.frames)});
  rows.push_back({"modules", FormatCount(counts.modules)});
  answer->Cells({Align::kLeft, Align::kRight}, rows, /*heading=*/false);
}

void AddOrigin(const ProcessInfo& process, Document* answer) {
  if (const ImportInfo imported = ImportInfoOf(process.settings); imported.any()) {
    answer->Line(absl::StrCat("  made from  ", imported.source, ", a ", imported.format, ", by gpumemshim import ",
                              process.writer_version));
    return;
  }
  answer->Line(absl::StrCat("  folder  ", process.working_directory));
  answer->Line(absl::StrCat("  binary  ", process.executable));
  answer->Line(absl::StrCat("  writer  libgpumemshim.so ", process.writer_version));
}

}  // namespace

Document InfoAnswer(const ReportInput& input, const FileCounts& counts) {
  const ProcessInfo& process = input.analysis->process;
  std::map<std::string, std::string> settings = process.settings;
  std::erase_if(settings, [](const auto& setting) { return absl::StartsWith(setting.first, kImportPrefix); });
  Document answer = TraceAnswer("info", input, Detail::kFull);
  answer.Field("sections", counts.sections, "processes in the file");
  answer.Field("packets", counts.packets, "packets in the file");
  answer.Field("settings", MapDatum(process.settings), "object: the GPUMEMSHIM_* values in force");
  answer.Field("environment", MapDatum(process.environment), "object: a fixed list of variables");
  AddDevices(
      input, [](const DeviceAnalysis&, Document*) {}, &answer);
  AddOrigin(process, &answer);
  AddCounts(input, counts, &answer);
  AddMap("Settings", settings, &answer);
  AddMap("Environment", process.environment, &answer);
  AddLosses(input, &answer);
  AddNotes(input, &answer);
  return answer;
}

}  // namespace gpumem
