// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "report/sections.h"

namespace gpumem {
namespace {

struct Loss {
  uint64_t count;
  const char* words;
};

// "gpumem peak run.gmtrace --device 0": ready to be typed.
std::string Next(absl::string_view command, const ReportInput& input, absl::string_view flags) {
  return absl::StrCat("gpumem ", command, input.trace_argument.empty() ? "" : " ", input.trace_argument,
                      flags.empty() ? "" : " ", flags);
}

std::string LargestDeviceFlag(const ReportInput& input) {
  const DeviceAnalysis* device = LargestDevice(*input.analysis);
  return device == nullptr || input.analysis->devices.size() < 2 ? "" : absl::StrCat("--device ", device->device);
}

}  // namespace

void AddLosses(const ReportInput& input, Page* page) {
  const LossCounts& losses = input.analysis->losses;
  const Loss all[] = {{losses.dropped_allocs, "allocations dropped because the ring was full"},
                      {losses.dropped_frees, "frees dropped because the ring was full: live memory is overstated"},
                      {losses.unwritten_events, "events that the file could not take"},
                      {losses.dropped_definitions, "stacks or names dropped: their frames are not known"},
                      {losses.truncated_stacks, "stacks deeper than the limit: their outermost frames are missing"},
                      {losses.unread_python_frames, "Python frames that could not be read"},
                      {losses.missing_packets, "packets missing from the file"},
                      {losses.damaged_bytes, "bytes of the file not readable"}};
  bool any = false;
  page->Gap();
  for (const Loss& loss : all) {
    if (loss.count == 0) continue;
    if (!any) page->Line({{losses.Total() > 0 ? Tone::kAlarm : Tone::kWarning, "Losses"}});
    page->Line(absl::StrCat("  ", FormatCount(loss.count), " ", loss.words));
    any = true;
  }
  if (!losses.write_error.empty()) {
    page->Line({{Tone::kAlarm, absl::StrCat("  The trace could not be written: ", losses.write_error)}});
    any = true;
  }
  if (!losses.unseen.empty()) {
    page->Line({{Tone::kWarning, any ? "  Calls of CUDA went past the recorder: see the notes"
                                     : "Losses  calls of CUDA went past the recorder: see the notes"}});
    any = true;
  }
  if (!any) page->Line({{Tone::kHeading, "Losses"}, {Tone::kPlain, "  none: every event is in the trace"}});
}

void AddNotes(const ReportInput& input, Page* page) {
  if (input.analysis->notes.empty()) return;
  page->Line({{Tone::kHeading, "Notes"}});
  for (const std::string& note : input.analysis->notes) page->Paragraph("  - ", note, Tone::kAside);
}

void AddNextStep(const ReportInput& input, Page* page) {
  if (input.analysis->devices.empty()) return;
  const std::string device = LargestDeviceFlag(input);
  std::vector<Page::Row> rows;
  rows.push_back({Next("peak", input, absl::StrCat(device, device.empty() ? "" : " ", "--full-stacks")),
                  "every frame behind the peak"});
  if (!input.analysis->ooms.empty())
    rows.push_back({Next("oom", input, device), "the failed request: what happened, what to do"});
  bool grew = false, scattered = false;
  for (const DeviceAnalysis& each : input.analysis->devices) {
    grew |= !each.leaks.growth.empty();
    scattered |= each.fragmentation.at_peak.external_ratio >= 0.5;
  }
  if (grew) rows.push_back({Next("leaks", input, device), "what grows, by stack"});
  if (scattered) rows.push_back({Next("fragmentation", input, device), "which blocks keep segments"});
  page->Line({{Tone::kHeading, "Next"}});
  page->Table({Align::kLeft, Align::kLeft}, rows, /*heading=*/false);
}

void AddReport(const ReportInput& input, const TextOptions& options, Page* page) {
  AddHead(input, Detail::kBrief, page);
  AddOoms(input, options, page);
  const DeviceAnalysis* largest = LargestDevice(*input.analysis);
  for (const DeviceAnalysis& device : input.analysis->devices) AddTimeline(device, input, Detail::kBrief, page);
  AddMarks(input, Detail::kBrief, page);
  if (largest != nullptr) {
    TextOptions fewer = options;
    if (!input.analysis->ooms.empty())
      fewer.top = std::min<size_t>(options.top, 3);  // who filled the device is told above
    AddPeak(*largest, DefaultMeasure(*largest), input, fewer, page);
    AddStackUp(*largest, input, page);
    AddLeaks(*largest, input, options, page);
    if (UsesTorch(*largest)) AddFragmentation(*largest, input, options, page);
  }
  AddLosses(input, page);
  AddNotes(input, page);
  AddNextStep(input, page);
}

}  // namespace gpumem
