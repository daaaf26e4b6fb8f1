// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What every answer about a trace tells machines first: the file, the process, what was recorded, and what is missing.

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "answers/report/cupti_words.h"
#include "answers/report/trace_answer.h"
#include "base/json_writer.h"
#include "ledger/load/ground.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

template <typename Texts>
Datum TextsDatum(const Texts& texts, JsonLayout layout = JsonLayout::kLines) {
  return Datum::List({texts.begin(), texts.end()}, layout);
}

// A time since the start, null for 0.
Datum SinceDatum(uint64_t time_ns, const ReportInput& input) { return Datum::If(time_ns != 0, input.Since(time_ns)); }

Datum ImportDatum(const ImportInfo& imported) {
  if (!imported.any()) return {};
  return Datum::Object({{"format", imported.format},
                        {"recorder", imported.recorder},
                        {"source", imported.source},
                        {"has_times", imported.has_times}});
}

Datum ProcessDatum(const ProcessInfo& process) {
  constexpr char kIds[] = "process ids", kRank[] = "of a distributed job, else null";
  return Datum::Object(
      {{"pid", process.pid, kIds},
       {"parent_pid", process.parent_pid, kIds},
       {"hostname", process.hostname, "its machine"},
       {"executable", process.executable, "path of the binary"},
       {"working_directory", process.working_directory, "at the start"},
       {"command_line", TextsDatum(process.command_line, JsonLayout::kOneLine),
        "arguments, secrets masked ([secrets.md](secrets.md)); empty with `GPUMEMSHIM_COMMAND_LINE=off`"},
       {"rank", Datum::If(process.rank >= 0, process.rank), kRank},
       {"world_size", Datum::If(process.world_size >= 0, process.world_size), kRank},
       {"writer_version", process.writer_version, "of libgpumemshim.so; of gpumemshim where the trace is an import"},
       {"imported", ImportDatum(ImportInfoOf(process.settings)),
        "null, or of a trace that `gpumemshim import` made: `format`, `recorder`, `source` (the file's name), "
        "`has_times`. Process and devices are not known then"},
       {"versions", MapDatum(process.versions),
        "object: name to version (driver, torch, python, ...); `container`: `docker`, `podman`, `kubernetes`, "
        "`apptainer` or "
        "`other`, absent outside of one; `python_frames`: why Python frames are not read, absent "
        "while they are; `python_helper`: what failed when the program's objects were looked at"}});
}

Datum GroundDatum(const Analysis& analysis) {
  const Ground ground = GroundOf(analysis);
  return Datum::Object(
      {{"covers", CoversName(ground.covers),
        "`run` (from the first use of the GPU on), `window` (a part of a run, or one whose beginning is not there), "
        "`moment` (a state without a history: nothing is known of peaks, growth and failures), `nothing` (empty)"},
       {"times", ground.has_times, "false: times only keep the order"},
       {"stacks", ground.has_stacks, "false: nobody recorded any"},
       {"totals", ground.has_totals, "whether what was reserved is known"},
       {"segments", ground.has_segments, "false: nobody recorded where what is reserved lies"},
       {"failures", ground.has_failures, "whether a request that failed would be in it"},
       {"complete", ground.is_complete, "false where events are missing, or the end of the run"},
       {"end", ground.knows_end, "false where nothing says when the program's own code ended, before its teardown"}},
      JsonLayout::kOneLine);
}

Datum RecordingDatum(const ReportInput& input) {
  std::vector<Datum> spans, existing;
  for (const RecordedSpan& span : input.analysis->marks.spans()) {
    spans.push_back(Datum::Object({{"from_ns", input.Since(span.from_ns)}, {"to_ns", input.Since(span.to_ns)}},
                                  JsonLayout::kOneLine));
  }
  for (const ExistingAtStart& start : input.analysis->existing) {
    existing.push_back(Datum::Object({{"at_ns", input.Since(start.time_ns)},
                                      {"known", start.known},
                                      {"blocks", start.blocks},
                                      {"allocated_bytes", start.allocated_bytes},
                                      {"segments", start.segments},
                                      {"reserved_bytes", start.reserved_bytes},
                                      {"lost", start.lost}},
                                     JsonLayout::kOneLine));
  }
  return Datum::Object(
      {{"began_late", input.analysis->marks.began_late(),
        "recording began when the program was under way: see `existing`"},
       {"spans", Datum::List(std::move(spans)),
        "what was recorded: objects with `from_ns` and `to_ns`; one where recording was never switched"},
       {"existing", Datum::List(std::move(existing)),
        "for each late start what PyTorch's allocator held then: `at_ns`, `known` (false: it is in no number), "
        "`blocks`, `allocated_bytes`, `segments`, `reserved_bytes`, and `lost`, the blocks and segments of its "
        "snapshot "
        "that the trace lacks"}});
}

Datum EventsDatum(const EventCounts& events) {
  constexpr char kLayers[] = "events of each layer";
  std::vector<Member> by_kind;
  for (const auto& [kind, count] : events.by_kind) by_kind.push_back({absl::AsciiStrToLower(kind), count});
  return Datum::Object({{"torch", events.torch, kLayers},
                        {"runtime", events.runtime, kLayers},
                        {"driver", events.driver, kLayers},
                        {"by_kind", Datum::Object(std::move(by_kind)), "object: kind of event to count"}});
}

Datum UnseenDatum(const UnseenCalls& calls) {
  constexpr absl::string_view kCauses[] = {"unknown", "bound_past", "looked_up_past", "other_namespace",
                                           "second_driver"};
  return Datum::Object({{"cause", kCauses[static_cast<size_t>(calls.cause)]},
                        {"object", calls.object},
                        {"function_count", calls.function_count},
                        {"functions", TextsDatum(calls.functions)}},
                       JsonLayout::kOneLine);
}

Datum CuptiDatum(const ReportInput& input) {
  constexpr char kDoctor[] = "as in doctor's `cross_check`";
  constexpr char kSpan[] = "since when it recorded, and until when its records are all there; null where it never did";
  constexpr char kUnseen[] =
      "allocations of device memory that only CUPTI saw, and the most of it at once: calls past the recorder, in no "
      "number but `breakdown`; null where CUPTI did not record";
  const CuptiInfo& cupti = input.analysis->cupti;
  if (!cupti.asked) return {};
  const UnseenPeak unseen = UnseenPeakOf(cupti);
  return Datum::Object({{"state", CuptiStateName(cupti.state), kDoctor},
                        {"library", cupti.library, kDoctor},
                        {"version", cupti.version, kDoctor},
                        {"error", cupti.error, kDoctor},
                        {"began_ns", SinceDatum(cupti.began_ns, input), kSpan},
                        {"complete_until_ns", SinceDatum(cupti.complete_until_ns, input), kSpan},
                        {"records", cupti.records, "of CUPTI, in this trace"},
                        {"unseen_allocations", Datum::If(cupti.compared, unseen.allocations), kUnseen},
                        {"unseen_peak_bytes", Datum::If(cupti.compared, unseen.bytes), kUnseen}});
}

Datum SeriesDatum(const SeriesInfo& series) {
  constexpr char kNumbers[] = "numbers of the first and the last of them; 1 = the beginning of the recording";
  if (series.files == 0) return {};
  return Datum::Object(
      {{"files", series.files, "how many were read; those that `cat` joined to one file count each"},
       {"first_number", series.first_number, kNumbers},
       {"last_number", series.last_number, kNumbers},
       {"events_before", series.events_before,
        "events before the first of them: they are in no number but what was alive then"},
       {"objects_not_in_snapshot", series.objects_not_in_snapshot,
        "allocations that were alive when the first of them began, and are not known"},
       {"missing_files", series.missing_files,
        "files between the first and the last that are not here: what happened in them is in no number"},
       {"goes_on_elsewhere", series.goes_on_elsewhere,
        "true if a file after the last one was begun and is missing here (it is not in the same file either)"}});
}

Datum GapsDatum(const ReportInput& input) {
  std::vector<Datum> gaps;
  for (const TraceGap& gap : input.analysis->gaps) {
    gaps.push_back(Datum::Object({{"from_ns", SinceDatum(gap.from_ns, input)},
                                  {"to_ns", SinceDatum(gap.to_ns, input)},
                                  {"packets", gap.packets},
                                  {"events", Datum::If(gap.events_known, gap.events)}},
                                 JsonLayout::kOneLine));
  }
  return Datum::List(std::move(gaps));
}

// Which file it is, and whether it is whole.
void AddFile(absl::string_view command, const Analysis& analysis, Document* fields) {
  const bool knows_running = analysis.complete || analysis.state != Analysis::Process::kUnknown;
  fields->Field("schema_version", kJsonSchemaVersion, "3");
  fields->Field("command", command, "the subcommand that answered");
  fields->Field("file", analysis.path, "path of the trace as it was opened");
  fields->Field("file_bytes", analysis.file_bytes, "its size");
  fields->Field("program", analysis.process.program, "short name of the traced program");
  fields->Field("complete", analysis.complete,
                "true where the program ended in order; false after a kill, or while it runs");
  fields->Field(
      "snapshot", analysis.snapshot,
      "true for a copy made by `gpumemshim ctl PID dump` while the program ran; it is complete up to its end");
  fields->Field("running", Datum::If(knows_running, analysis.state == Analysis::Process::kRunning),
                "true while the program runs, false after its end; null where only its own machine could tell");
  fields->Field("recovered_events", analysis.recovered_events,
                "how many of the events were taken from the ring of the killed process ([ring.md](ring.md))");
  fields->Field("end_unknown", analysis.end_unknown,
                "true: the process is not known to run, has no end in the trace, and left no ring that could be read, "
                "so what it recorded in its last 100 ms may be missing and is in no number");
  fields->Field("damage", Datum::TextOrNull(analysis.damage),
                "what is wrong with the file and where, else null; then the exit code is 4 "
                "([trace-files.md](trace-files.md))");
}

}  // namespace

Datum LossesDatum(const LossCounts& losses) {
  constexpr char kDropped[] = "dropped because the ring was full";
  constexpr char kCupti[] =
      "of CUPTI's records: dropped by CUPTI, and more than the recorder had room for. No event is missing for them";
  std::vector<Datum> unseen;
  for (const UnseenCalls& calls : losses.unseen) unseen.push_back(UnseenDatum(calls));
  return Datum::Object(
      {{"total", losses.Total(),
        "events that happened and are not in the trace: the sum of the next three and of `missing_events`"},
       {"dropped_allocs", losses.dropped_allocs, kDropped},
       {"dropped_frees", losses.dropped_frees, kDropped},
       {"unwritten_events", losses.unwritten_events, "the file could not take them"},
       {"dropped_definitions", losses.dropped_definitions, "stacks or names dropped: frames are not known"},
       {"truncated_stacks", losses.truncated_stacks,
        "stacks too deep, or cut by code without unwind tables or by a greenlet's end: outermost frames missing"},
       {"unread_python_frames", losses.unread_python_frames, "Python frames that could not be read"},
       {"missing_packets", losses.missing_packets, "gaps in the file's packet numbers"},
       {"missing_events", losses.missing_events, "events in them, as far as that is known"},
       {"damaged_bytes", losses.damaged_bytes, "bytes of the file that could not be used"},
       {"cupti_dropped_records", losses.cupti_dropped_records, kCupti},
       {"cupti_lost_records", losses.cupti_lost_records, kCupti},
       {"write_error", Datum::TextOrNull(losses.write_error), "first error of the file, else null"},
       {"unseen", Datum::List(std::move(unseen)),
        "calls of CUDA that went past the recorder ([coverage.md](coverage.md)): objects with `cause` "
        "(`bound_past`, `looked_up_past`, `other_namespace`, `second_driver`, `unknown`), `object` (path of who "
        "calls, or of the driver that is reached), `function_count` (0 = not told apart) and `functions`, the "
        "first eight. How many calls were made is not known; they are in no other number"}});
}

Document HeadFields(absl::string_view command, const ReportInput& input) {
  constexpr char kWindow[] = "the window that was looked at (`--from`, `--to`)";
  const Analysis& analysis = *input.analysis;
  Document fields;
  AddFile(command, analysis, &fields);
  fields.Field("unsure_from_ns", SinceDatum(analysis.unsure_from_ns, input),
               "from when on numbers are unsure, because events are missing in a gap; else null");
  fields.Field("gaps", GapsDatum(input),
               "where packets are missing: objects with `from_ns` and `to_ns` (null = the trace's start or end), "
               "`packets`, and `events` (null = not known)");
  fields.Field("start_realtime_ns", input.StartRealtime(), "the first event, nanoseconds since 1970; 0 = not known");
  fields.Field("duration_ns", input.Since(analysis.end_ns), "from the first to the last event");
  fields.Field("program_end_ns", SinceDatum(analysis.program_end_ns, input),
               "when the program's own code ended and its teardown began; null = unknown. What is said of the end "
               "(`alive`, `at_end`) is of this moment");
  fields.Field("from_ns", input.Since(input.window_start_ns()), kWindow);
  fields.Field("to_ns", input.Since(input.window_end_ns()), kWindow);
  fields.Field("process", ProcessDatum(analysis.process), "object: the traced process, below");
  fields.Field("ground", GroundDatum(analysis), "object: what this trace or file can know at all, below");
  fields.Field("recording", RecordingDatum(input), "object: when recording was on, below");
  fields.Field("events", EventsDatum(analysis.events),
               "object: how many events, each recorded call once, at its outermost layer");
  fields.Field("losses", LossesDatum(analysis.losses), "object: what is missing from the trace");
  fields.Field("cupti", CuptiDatum(input), "object: what CUPTI did beside the recorder; null where it was not asked");
  fields.Field("series", SeriesDatum(analysis.series),
               "object: which files of a series were read ([trace-files.md](trace-files.md)), below; null where the "
               "trace is one file");
  fields.Field("notes", TextsDatum(analysis.notes), "sentences: what the numbers rest on");
  return fields;
}

}  // namespace gpumem
