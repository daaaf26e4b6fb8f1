// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "answers/parts/attribution_answer.h"
#include "answers/report/leak_words.h"
#include "answers/report/sections.h"
#include "answers/report/state.h"
#include "ledger/attribution/attribution.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

// "gpumemshim peak run.gmtrace --device 0": ready to be typed.
std::string Next(absl::string_view command, const ReportInput& input, absl::string_view flags) {
  return absl::StrCat("gpumemshim ", command, input.trace_argument.empty() ? "" : " ", input.trace_argument,
                      flags.empty() ? "" : " ", flags);
}

std::string LargestDeviceFlag(const ReportInput& input) {
  const DeviceAnalysis* device = LargestDevice(*input.analysis);
  return device == nullptr || input.analysis->devices.size() < 2 ? "" : absl::StrCat("--device ", device->device);
}

}  // namespace

void AddLosses(const ReportInput& input, Document* answer) {
  const std::vector<std::string> lines = LossLines(input);
  answer->Gap();
  if (const ImportInfo imported = ImportInfoOf(input.analysis->process.settings); lines.empty() && imported.any()) {
    answer->Line(
        {{Tone::kHeading, "Dropped events:"},
         {Tone::kPlain, absl::StrCat(" not known; ", imported.recorder, " does not count what it leaves out")}});
    return;
  }
  if (lines.empty() && input.analysis->end_unknown) {
    answer->Line({{Tone::kWarning, "Dropped events:"},
                  {Tone::kPlain, " none counted; the last 100 ms of the process are unknown"}});
    return;
  }
  if (lines.empty()) {
    answer->Line({{Tone::kHeading, "Dropped events:"}, {Tone::kPlain, " none"}});
    return;
  }
  const LossCounts& losses = input.analysis->losses;
  const bool alarm = losses.Total() > 0 || !losses.write_error.empty();
  answer->Line({{alarm ? Tone::kAlarm : Tone::kWarning, "Dropped or missing"}});
  for (const std::string& line : lines) answer->Line(absl::StrCat("  ", line));
}

void AddNotes(const ReportInput& input, Document* answer) {
  if (input.analysis->notes.empty()) return;
  answer->Line({{Tone::kHeading, "Notes"}});
  for (const std::string& note : input.analysis->notes) answer->Paragraph("  - ", note, Tone::kAside);
}

void AddNextStep(const ReportInput& input, Document* answer) {
  if (input.analysis->devices.empty()) return;
  const std::string device = LargestDeviceFlag(input);
  std::vector<Page::Row> rows;
  rows.push_back({Next("peak", input, absl::StrCat(device, device.empty() ? "" : " ", "--full-stacks")),
                  "the stacks behind the peak"});
  if (!input.analysis->ooms.empty())
    rows.push_back({Next("oom", input, device), "the failed request: what happened, what to do"});
  bool grew = false, scattered = false;
  for (const DeviceAnalysis& each : input.analysis->devices) {
    const LeakDevice* const found = input.leaks == nullptr ? nullptr : LeaksOf(*input.leaks, each.device);
    grew |= found != nullptr && !found->rows.empty() && found->rows[0].status == LeakStatus::kGrowing;
    scattered |= FreeSpaceOf(each.fragmentation.at_peak) == FreeSpace::kScattered;
  }
  if (grew) rows.push_back({Next("leaks", input, device), "what grows, by line"});
  if (scattered) rows.push_back({Next("fragmentation", input, device), "which blocks keep segments"});
  answer->Line({{Tone::kHeading, "Next"}});
  answer->Cells({Align::kLeft, Align::kLeft}, rows, /*heading=*/false);
}

void AddReport(const ReportInput& input, const TextOptions& options, Document* answer) {
  AddHead(input, Detail::kFull, answer);
  AddOoms(input, options, answer);
  if (input.attribution != nullptr && !input.attribution->moments.empty()) {
    answer->Gap();
    AddCategories(input.attribution->moments.front(), "the peak", input, answer);
    AddSnapshots(input, answer);
  }
  const DeviceAnalysis* largest = LargestDevice(*input.analysis);
  for (const DeviceAnalysis& device : input.analysis->devices) AddTimeline(device, input, Detail::kBrief, answer);
  AddMarks(input, Detail::kBrief, answer);
  if (largest != nullptr) {
    TextOptions fewer = options;
    if (!input.analysis->ooms.empty())
      fewer.top = std::min<size_t>(options.top, 3);  // who filled the device is said above
    AddPeak(*largest, DefaultMeasure(*largest), input, fewer, answer);
    AddBreakdown(*largest, input, answer);
    AddLeaks(*largest, input, options, answer);
    if (UsesTorch(*largest)) AddFragmentation(*largest, input, options, answer);
  }
  AddLosses(input, answer);
  AddNotes(input, answer);
  AddNextStep(input, answer);
}

}  // namespace gpumem
