// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format.h"
#include "report/names.h"
#include "report/sections.h"

namespace gpumem {
namespace {

constexpr size_t kMostSpans = 4;

std::string VersionsText(const ProcessInfo& process) {
  std::map<std::string, std::string> versions = process.versions;
  versions.erase("python_frames");  // a sentence: it is in the notes
  return absl::StrJoin(versions, ", ", [](std::string* out, const auto& item) {
    absl::StrAppend(out, item.first, " ", item.second.substr(0, item.second.find(' ')));
  });
}

void AddProcess(const ReportInput& input, Page* page) {
  const ProcessInfo& process = input.analysis->process;
  std::string about = absl::StrCat("  process ", process.pid);
  if (!process.hostname.empty()) absl::StrAppend(&about, " on ", process.hostname);
  if (process.rank >= 0) absl::StrAppend(&about, ", rank ", process.rank);
  if (process.rank >= 0 && process.world_size > 0) absl::StrAppend(&about, " of ", process.world_size);
  if (const uint64_t start = input.StartRealtime(); start != 0) absl::StrAppend(&about, ", ", FormatUtc(start));
  const std::string program = process.program.empty() ? "(program not known)" : process.program;
  page->Line({{Tone::kHeading, program}, {Tone::kPlain, about}});
}

void AddTraceLine(const ReportInput& input, Page* page) {
  const Analysis& analysis = *input.analysis;
  const EventCounts& events = analysis.events;
  page->Paragraph("  trace   ",
                  absl::StrCat(analysis.path, ", ", FormatBytes(analysis.file_bytes), ": ",
                               FormatCount(events.torch + events.runtime + events.driver), " events (torch ",
                               FormatCount(events.torch), ", runtime ", FormatCount(events.runtime), ", driver ",
                               FormatCount(events.driver), ") over ", FormatTime(input.Since(analysis.end_ns))));
}

void AddDevices(const ReportInput& input, Page* page) {
  for (const DeviceAnalysis& device : input.analysis->devices) {
    const std::string name = device.name.empty() ? "(name not known)" : device.name;
    const std::string size = device.capacity == 0 ? "" : absl::StrCat(", ", FormatBytes(device.capacity));
    page->Line(absl::StrCat("  GPU ", device.device, "   ", name, size));
  }
  if (input.analysis->devices.empty()) page->Line("  No GPU memory was allocated in this trace.");
}

// Which parts of the run were recorded, where that is not all of it.
void AddSpans(const ReportInput& input, Page* page) {
  const MarkLog& marks = input.analysis->marks;
  if (!marks.was_switched()) return;
  std::vector<std::string> spans;
  for (const RecordedSpan& span : marks.spans()) {
    if (spans.size() == kMostSpans) break;
    spans.push_back(absl::StrCat(FormatTime(input.Since(span.from_ns)), " to ", FormatTime(input.Since(span.to_ns))));
  }
  page->Paragraph("  recorded ",
                  absl::StrCat("from ", absl::StrJoin(spans, ", "),
                               marks.spans().size() > kMostSpans
                                   ? absl::StrCat(" and ", marks.spans().size() - kMostSpans, " times more")
                                   : "",
                               "; see the notes for what that means"),
                  Tone::kWarning);
}

// Why the end is missing, and what was done about it.
std::string EndText(const Analysis& analysis) {
  std::string text = analysis.state == Analysis::Process::kRunning ? "The program is still running."
                     : analysis.state == Analysis::Process::kEnded
                         ? "The end is missing: the process was killed, or ended without exit()."
                     : analysis.recovered_events > 0 ? "The end is missing: the process was killed."
                                                     : "The end is missing: killed, or still running.";
  if (analysis.recovered_events > 0) {
    absl::StrAppend(&text, " ", FormatCountOf(analysis.recovered_events, "event", "events"),
                    " recovered from the ring of the killed process.");
  }
  return text;
}

// What is not whole comes before any number.
void AddState(const ReportInput& input, Page* page) {
  const Analysis& analysis = *input.analysis;
  if (!analysis.damage.empty()) {
    page->Paragraph(
        "  DAMAGED ",
        absl::StrCat(analysis.damage, ". All that follows is up to ", FormatTime(input.Since(analysis.end_ns)), "."),
        Tone::kAlarm);
  } else if (analysis.snapshot) {
    page->Paragraph("  state   ", absl::StrCat("A copy made while the program ran: up to ",
                                               FormatTime(input.Since(analysis.end_ns)), "."));
  } else if (!analysis.complete) {
    page->Paragraph(
        "  state   ",
        absl::StrCat(EndText(analysis), " All that follows is up to ", FormatTime(input.Since(analysis.end_ns)), "."),
        Tone::kWarning);
  }
  if (analysis.losses.Total() > 0) {
    page->Paragraph("  LOST    ",
                    absl::StrCat(FormatCountOf(analysis.losses.Total(), "event is", "events are"),
                                 " missing, so totals may be off; see the end of the report."),
                    Tone::kAlarm);
  }
}

}  // namespace

void AddHead(const ReportInput& input, Detail detail, Page* page) {
  AddProcess(input, page);
  AddTraceLine(input, page);
  if (detail == Detail::kFull) {
    const ProcessInfo& process = input.analysis->process;
    if (!process.command_line.empty()) page->Paragraph("  command ", absl::StrJoin(process.command_line, " "));
  }
  AddDevices(input, page);
  const std::string versions = VersionsText(input.analysis->process);
  if (!versions.empty()) page->Line(absl::StrCat("  with    ", versions));
  AddSpans(input, page);
  if (input.asked.from_ns != 0 || input.asked.to_ns != UINT64_MAX) {
    page->Line(absl::StrCat("  window  ", FormatTime(input.Since(input.window_start_ns())), " to ",
                            FormatTime(input.Since(input.window_end_ns()))));
  }
  AddState(input, page);
  AddLimits(input, page);
}

}  // namespace gpumem
