// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/state.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format.h"
#include "ledger/load/ground.h"
#include "render/instants.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

constexpr size_t kMaxSpans = 4;
constexpr size_t kMaxGaps = 4;

std::string VersionsText(const ProcessInfo& process) {
  std::map<std::string, std::string> versions = process.versions;
  for (const char* sentence : {"python_frames", "python_helper", "simulated"}) versions.erase(sentence);  // told apart
  return absl::StrJoin(versions, ", ", [](std::string* out, const auto& item) {
    absl::StrAppend(out, item.first, " ", item.second.substr(0, item.second.find(' ')));
  });
}

std::string TraceText(const ReportInput& input) {
  const Analysis& analysis = *input.analysis;
  const EventCounts& events = analysis.events;
  // What was imported on the way lies in a cache: the file that was given is the one to name.
  const bool is_imported = ImportInfoOf(analysis.process.settings).any() && !input.trace_argument.empty();
  return absl::StrCat(is_imported ? input.trace_argument : analysis.path,
                      is_imported ? "" : absl::StrCat(", ", FormatBytes(analysis.file_bytes)), ": ", EventsText(input),
                      " (torch ", FormatCount(events.torch), ", runtime ", FormatCount(events.runtime), ", driver ",
                      FormatCount(events.driver), ")");
}

void AppendDevices(const ReportInput& input, std::vector<Remark>* facts) {
  for (const DeviceAnalysis& device : input.analysis->devices) {
    const std::string name = device.name.empty() ? "(name not known)" : device.name;
    const std::string size = device.capacity == 0 ? "" : absl::StrCat(", ", FormatBytes(device.capacity));
    facts->push_back({absl::StrCat("GPU ", device.device), absl::StrCat(name, size), Tone::kPlain});
  }
  const uint64_t pinned = input.analysis->host_pinned_peak;
  if (input.analysis->devices.empty() && pinned != 0) {
    facts->push_back(
        {"", absl::StrCat("This trace has no GPU memory; ", FormatBytes(pinned), " of host memory pinned at most."),
         Tone::kPlain});
  } else if (input.analysis->devices.empty()) {
    facts->push_back({"", "No GPU memory was allocated in this trace.", Tone::kPlain});
  }
}

// Which parts of the run were recorded, where that is not all of it.
void AppendSpans(const ReportInput& input, std::vector<Remark>* facts) {
  const MarkLog& marks = input.analysis->marks;
  if (!marks.was_switched()) return;
  std::vector<std::string> spans;
  for (const RecordedSpan& span : marks.spans()) {
    if (spans.size() == kMaxSpans) break;
    spans.push_back(absl::StrCat(FormatTime(input.Since(span.from_ns)), " to ", FormatTime(input.Since(span.to_ns))));
  }
  const std::string more =
      marks.spans().size() > kMaxSpans ? absl::StrCat(" and ", marks.spans().size() - kMaxSpans, " times more") : "";
  facts->push_back({"recorded",
                    absl::StrCat("from ", absl::StrJoin(spans, ", "), more, "; see the notes for what that means"),
                    Tone::kWarning});
}

// Python, for one, raises Ctrl-C's signal against itself when it has ended the program's own code.
std::string KilledText(const Analysis& analysis) {
  return analysis.program_end_ns != 0
             ? "The program's own code had ended when a signal ended the process, as Ctrl-C does."
             : "The end is missing: the process was killed, or ended without exit().";
}

// Why the end is missing, and what was done about it.
std::string EndText(const Analysis& analysis) {
  std::string text = analysis.state == Analysis::Process::kRunning ? "The program is still running."
                     : analysis.state == Analysis::Process::kEnded ? KilledText(analysis)
                     : analysis.recovered_events > 0               ? "The end is missing: the process was killed."
                                                                   : "The end is missing: killed, or still running.";
  if (analysis.recovered_events > 0) {
    absl::StrAppend(&text, " ", FormatCountOf(analysis.recovered_events, "event", "events"),
                    " recovered from the ring of the killed process.");
  }
  if (analysis.end_unknown)
    absl::StrAppend(&text, " Its last moments, up to 100 ms, may be missing and are not counted.");
  return text;
}

// Between which instants packets are missing, and what was in them.
std::string GapText(const ReportInput& input, const TraceGap& gap) {
  std::string text = FormatCountOf(gap.packets, "packet", "packets");
  if (gap.events_known) absl::StrAppend(&text, " with ", FormatCountOf(gap.events, "event", "events"));
  const std::string from = gap.from_ns == 0 ? "the start" : FormatTime(input.Since(gap.from_ns));
  const std::string to = gap.to_ns == 0 ? "the end" : FormatTime(input.Since(gap.to_ns));
  return absl::StrCat(text, " between ", from, " and ", to);
}

// What is missing, and what that means for the numbers.
std::string GapsText(const ReportInput& input) {
  const Analysis& analysis = *input.analysis;
  if (analysis.gaps.empty()) return "";
  std::vector<std::string> gaps;
  for (const TraceGap& gap : analysis.gaps) {
    if (gaps.size() == kMaxGaps) break;
    gaps.push_back(GapText(input, gap));
  }
  std::string text = absl::StrCat(" Missing: ", absl::StrJoin(gaps, ", "));
  if (analysis.gaps.size() > kMaxGaps)
    absl::StrAppend(&text, ", and in ", analysis.gaps.size() - kMaxGaps, " more gaps");
  if (analysis.unsure_from_ns == 0) return absl::StrCat(text, ": no event, but names may be.");
  return absl::StrCat(
      text, ". From ", FormatTime(input.Since(analysis.unsure_from_ns)),
      " on numbers are unsure: what was allocated in a gap is not known, and what was freed in it still "
      "counts as live, but where PyTorch's own totals correct the sum.");
}

// How many events are missing, why, and what that means.
std::string LostText(const Analysis& analysis) {
  const LossCounts& losses = analysis.losses;
  std::vector<std::string> why;
  if (losses.dropped_allocs + losses.dropped_frees > 0) why.push_back("the ring was full (GPUMEMSHIM_RING_SIZE)");
  if (!losses.write_error.empty()) why.push_back(absl::StrCat("the file could not be written: ", losses.write_error));
  if (losses.missing_events > 0) why.push_back("packets are missing from the file");
  const uint64_t total = losses.Total();
  return absl::StrCat(total == 0 ? "Events may be" : FormatCountOf(total, "event is", "events are"), " missing",
                      why.empty() ? "" : absl::StrCat(" (", absl::StrJoin(why, "; "), ")"),
                      ": peaks are the least that they were, or PyTorch's own totals, and other totals may be off; see "
                      "the end of the report.");
}

}  // namespace

std::string ProcessText(const ReportInput& input) {
  const ProcessInfo& process = input.analysis->process;
  const ImportInfo imported = ImportInfoOf(process.settings);
  std::string about = imported.any()
                          ? absl::StrCat("imported from ", imported.source, ", recorded by ", imported.recorder)
                          : absl::StrCat("process ", process.pid);
  if (!process.hostname.empty()) absl::StrAppend(&about, " on ", process.hostname);
  if (process.rank >= 0) absl::StrAppend(&about, ", rank ", process.rank);
  if (process.rank >= 0 && process.world_size > 0) absl::StrAppend(&about, " of ", process.world_size);
  if (const uint64_t start = input.StartRealtime(); start != 0) absl::StrAppend(&about, ", ", FormatUtc(start));
  const Covers covers = GroundOf(*input.analysis).covers;
  if (covers == Covers::kNothing) absl::StrAppend(&about, ", empty");
  if (covers == Covers::kMoment) absl::StrAppend(&about, ", one moment without a history");
  return about;
}

std::vector<Remark> HeadFacts(const ReportInput& input, bool full) {
  std::vector<Remark> facts;
  facts.push_back({"trace", TraceText(input), Tone::kPlain});
  const ProcessInfo& process = input.analysis->process;
  if (full && !process.command_line.empty())
    facts.push_back({"command", absl::StrJoin(process.command_line, " "), Tone::kPlain});
  if (full && process.command_line.empty() && process.settings.count("GPUMEMSHIM_COMMAND_LINE") != 0)
    facts.push_back({"command", "not recorded (GPUMEMSHIM_COMMAND_LINE=off)", Tone::kPlain});
  AppendDevices(input, &facts);
  const std::string versions = VersionsText(process);
  if (!versions.empty()) facts.push_back({"with", versions, Tone::kPlain});
  if (process.versions.count("simulated") != 0)
    facts.push_back({"GPU", "simulated: timings are not meaningful", Tone::kWarning});
  AppendSpans(input, &facts);
  if (input.asked.from_ns != 0 || input.asked.to_ns != UINT64_MAX) {
    facts.push_back({"window",
                     absl::StrCat(FormatTime(input.Since(input.window_start_ns())), " to ",
                                  FormatTime(input.Since(input.window_end_ns()))),
                     Tone::kPlain});
  }
  return facts;
}

std::string DamageText(const ReportInput& input) { return absl::StrCat(input.analysis->damage, ".", GapsText(input)); }

std::vector<Remark> StateRemarks(const ReportInput& input) {
  const Analysis& analysis = *input.analysis;
  const std::string up_to = absl::StrCat("up to ", FormatTime(input.Since(analysis.end_ns)), ".");
  std::vector<Remark> remarks;
  if (!analysis.damage.empty()) {
    remarks.push_back({"DAMAGED", absl::StrCat(DamageText(input), " All that follows is ", up_to), Tone::kAlarm});
  } else if (analysis.snapshot) {
    remarks.push_back({"state", absl::StrCat("A copy made while the program ran: ", up_to), Tone::kPlain});
  } else if (!analysis.complete) {
    remarks.push_back({"state", absl::StrCat(EndText(analysis), " All that follows is ", up_to), Tone::kWarning});
  }
  if (analysis.losses.MissesEvents()) remarks.push_back({"LOST", LostText(analysis), Tone::kAlarm});
  return remarks;
}

std::vector<std::string> LossLines(const ReportInput& input) {
  const LossCounts& losses = input.analysis->losses;
  const struct {
    uint64_t count;
    const char *one, *many, *rest;
  } all[] = {{losses.dropped_allocs, "allocation", "allocations", " dropped because the ring was full"},
             {losses.dropped_frees, "free", "frees", " dropped because the ring was full: live memory is overstated"},
             {losses.unwritten_events, "event", "events", " that the file could not take"},
             {losses.dropped_definitions, "stack or name", "stacks or names", " dropped: their frames are not known"},
             {losses.truncated_stacks, "stack", "stacks",
              " too deep, or cut by code without unwind tables: outermost frames are missing"},
             {losses.unread_python_frames, "Python frame", "Python frames", " that could not be read"},
             {losses.missing_packets, "packet", "packets", " missing from the file"},
             {losses.missing_events, "event", "events", " missing with them"},
             {losses.damaged_bytes, "byte", "bytes", " of the file of no use"},
             {losses.cupti_dropped_records, "record", "records", " of CUPTI that CUPTI dropped"},
             {losses.cupti_lost_records, "record", "records", " of CUPTI that the recorder had no room for"}};
  std::vector<std::string> lines;
  for (const auto& loss : all) {
    if (loss.count > 0) lines.push_back(absl::StrCat(FormatCountOf(loss.count, loss.one, loss.many), loss.rest));
  }
  if (!losses.write_error.empty())
    lines.push_back(absl::StrCat("The trace could not be written: ", losses.write_error));
  if (!losses.unseen.empty()) lines.push_back("calls of CUDA went past the recorder: see the notes");
  return lines;
}

bool IsSimulated(const Analysis& analysis) {
  if (analysis.process.versions.count("simulated") != 0) return true;
  return std::any_of(analysis.devices.begin(), analysis.devices.end(),
                     [](const DeviceAnalysis& device) { return absl::StartsWith(device.name, "SimCUDA "); });
}

}  // namespace gpumem
