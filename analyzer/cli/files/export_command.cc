// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/views/stack_list.h"
#include "answers/views/stack_tree.h"
#include "base/format.h"
#include "base/output_file.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/files/named_trace.h"
#include "cli/files/packet_text.h"
#include "cli/files/parquet_export.h"
#include "cli/files/recovered_trace.h"
#include "cli/look/view_options.h"
#include "cli/trace_options.h"
#include "export/exporter.h"
#include "export/hta.h"
#include "export/openmetrics.h"
#include "export/pytorch.h"
#include "export/stack_profiles.h"
#include "export/tool_file.h"

namespace gpumem {
namespace {

enum class FormatKind : uint8_t { kNone, kEvents, kStacks, kNumbers, kTables, kTool, kText, kTrace };

struct Format {
  absl::string_view name;
  FormatKind kind = FormatKind::kNone;
};

constexpr Format kFormats[] = {
    {"pytorch", FormatKind::kEvents},
    {"chrome", FormatKind::kEvents},
    {"perfetto", FormatKind::kEvents},
    {"hta", FormatKind::kEvents},
    {"csv", FormatKind::kEvents},
    {"jsonl", FormatKind::kEvents},
    {"rmm", FormatKind::kEvents},
    {"pprof", FormatKind::kStacks},
    {"speedscope", FormatKind::kStacks},
    {"collapsed", FormatKind::kStacks},
    {"openmetrics", FormatKind::kNumbers},
    {"parquet", FormatKind::kTables},
    {"gpumemoryprofiler-json", FormatKind::kTool},
    {"gpumemoryprofiler-log", FormatKind::kTool},
    {"gpumemoryprofiler-timeline", FormatKind::kTool},
    {"memorydebugger-snapshots", FormatKind::kTool},
    {"memorydebugger-comparison", FormatKind::kTool},
    {"memorydebugger-report", FormatKind::kTool},
    {"memorydebugger-log", FormatKind::kTool},
    {"tinytorch-status", FormatKind::kTool},
    {"tinytorch-log", FormatKind::kTool},
    {"packets", FormatKind::kText},
    {"events", FormatKind::kText},
    {"trace", FormatKind::kTrace},
};

FormatKind KindOf(absl::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& format) { return format.name == name; });
  return found == std::end(kFormats) ? FormatKind::kNone : found->kind;
}

bool IsBinary(absl::string_view format) {
  return format == "pytorch" || format == "perfetto" || format == "hta" || format == "pprof";
}

absl::Status NoSuchFormat(const std::string& format) {
  return absl::InvalidArgumentError(absl::StrCat(
      format.empty() ? "no format given" : absl::StrCat(format, " is not a format"), "; these are: ",
      absl::StrJoin(kFormats, ", ", [](std::string* out, const Format& each) { absl::StrAppend(out, each.name); })));
}

// Where the bytes go, and how many went.
class Output {
 public:
  explicit Output(Console* console) : console_(console) {}

  absl::Status Open(const std::string& path) {
    if (path.empty()) return absl::OkStatus();
    GPUMEM_ASSIGN_OR_RETURN(file_, OutputFile::Create(path, {.is_named = true, .is_durable = true}));
    return absl::OkStatus();
  }
  void Write(absl::string_view bytes) {
    written_ += bytes.size();
    if (file_ == nullptr) return console_->PrintFile(bytes);
    is_written_ = file_->Write(bytes).ok();
  }
  absl::Status Close() { return file_ == nullptr ? absl::OkStatus() : file_->Commit(); }
  TextSink sink() {
    return [this](absl::string_view text) { Write(text); };
  }
  uint64_t written() const { return written_; }
  bool failed() const { return !is_written_ || console_->print_failed(); }

 private:
  Console* console_;
  std::unique_ptr<OutputFile> file_;
  bool is_written_ = true;
  uint64_t written_ = 0;
};

class ExportCommand final : public Command {
 public:
  absl::string_view name() const override { return "export"; }
  CommandPlace place() const override { return {CommandGroup::kFiles, 2}; }
  absl::string_view summary() const override { return "a trace for other tools, as text, or whole again after a kill"; }
  absl::string_view arguments() const override { return "[FLAGS] FORMAT [FILE|DIR]..."; }
  absl::string_view help() const override {
    return R"(Writes a trace as a file that another tool opens, to -o FILE or to standard output. Of events:

  pytorch     torch.cuda.memory's snapshot, for _memory_viz.py and pytorch.org/memory_viz
  chrome      Trace Event Format: counters, steps and marks, for ui.perfetto.dev
  perfetto    the same as Perfetto's protobuf trace; cat joins those of several processes
  hta         one GPU by category, as torch.profiler's *.raw.json.gz, for Holistic Trace Analysis
  csv, jsonl  one line an event, with the totals behind it and the line of the program
  rmm         RMM's log of allocations, for its replay benchmark

Of what was alive at the peak, by stack, or of what the flags of stacks choose:

  pprof, speedscope
  collapsed   one line a stack, outermost call first: flamegraph.pl, inferno and others

Of its numbers (peaks, end, categories, events) as gauges:

  openmetrics for Prometheus, its textfile collector and its Pushgateway

Files of other tools, in their keys and words, with exact numbers:

  gpumemoryprofiler-json, -log, -timeline     GPUMemoryProfiler: events by name, its log, its console timeline
  memorydebugger-snapshots, -comparison, -report, -log     memoryDebugger.py and quickMemoryDebug.py
  tinytorch-status, -log                      Tiny Torch's tools.memory: status report, warnings and summary

Of whole traces, one or many, every table of gpumemshim sql (needs DuckDB, as that does):

  parquet     a folder: one folder a table, and in it one a rank, as Hive partitions; table ranks says who is missing

Of the file as it is, streamed, so any size works (with --json one object a line):

  packets     every packet in protobuf's text form, decompressed
  events      one line an event

A trace again, as FILE.recovered.gmtrace or FILE.symbolized.gmtrace (FILE is unchanged unless you give --in-place):

  trace       with the last events that a killed program left in its ring, in /dev/shm or beside the trace; a ring
              without a trace becomes one. With --names: with functions and lines of its native frames, so that
              every command gives the same answers on a machine without the binaries

  gpumemshim export pytorch run.gmtrace -o run.pickle
  gpumemshim export chrome run.gmtrace -o run.json --from 'step 3' --to 'step 5'
  gpumemshim export csv run.gmtrace --layer torch | head
  gpumemshim export pprof run.gmtrace -o peak.pb && go tool pprof -top peak.pb
  gpumemshim export collapsed --leaks --native full | grep optimizer
  gpumemshim export hta run.gmtrace -o run.raw.json.gz
  gpumemshim export events --layer runtime --from 1.5s --to 2s | grep alloc_failed
  gpumemshim export trace --in-place --delete traces/*.gmtrace
  gpumemshim export trace --names run.gmtrace -o shared.gmtrace
  gpumemshim export parquet --partition rank runs/ -o tables
)";
  }
  size_t most_arguments() const override { return 1'000'000; }

  void AddFlags(Flags* flags) override {
    view_.trace.AddFlags(flags);
    flags->Add("-o,--output", &output_, "the file to write; one that is there is replaced, but by no trace")
        .Value("FILE");
    limit_option_ = flags->Add("--limit", &limit_, "packets, events: stop after so many; 0 = all").Value("N");
    flags->Add("--max-file-size", &max_size_, "formats of events: end, properly closed, after about so many bytes")
        .Value("SIZE");
    flags->Add("--partition", &partition_, "parquet: a folder a rank in each table's folder, or none (rank)")
        .Value("WHAT")
        .OneOf({"rank", "none"});
    flags->Add("--jobs", &jobs_, "parquet: traces that are exported at once; 0 = one a core, at most 8 (0)").Value("N");
    of_traces_ = flags->Begin("Flags of trace");
    flags->Add("--names", &names_, "store the names of native frames");
    flags->Add("--in-place", &in_place_, "change FILE itself");
    flags->Add("--delete", &delete_, "remove the ring when its events are written");
    of_stacks_ = flags->Begin("Flags of stacks (pprof, speedscope, collapsed)");
    view_.AddChoiceFlags(flags);
    view_.AddFrameFlags(flags);
    view_.AddOrderFlags(flags);
    flags->Add("--count", &count_, "number of allocations instead of bytes");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    const std::string format = arguments.empty() ? "" : arguments.front();
    if (const std::string flag = of_stacks_.first_given(); !flag.empty() && KindOf(format) != FormatKind::kStacks)
      return absl::InvalidArgumentError(absl::StrCat(flag, " is for stacks: pprof, speedscope and collapsed"));
    if (const std::string flag = of_traces_.first_given(); !flag.empty() && format != "trace")
      return absl::InvalidArgumentError(absl::StrCat(flag, " is for trace: gpumemshim export trace"));
    if (format == "trace") return ExportTrace({arguments.begin() + 1, arguments.end()}, console);
    if (format == "parquet") return ExportTables({arguments.begin() + 1, arguments.end()}, console);
    const FormatKind kind = KindOf(format);
    if (kind == FormatKind::kNone) return NoSuchFormat(format);
    if (view_.trace.json && kind != FormatKind::kText)
      return absl::InvalidArgumentError(
          "--json is for packets, events and trace --names; JSON formats are chrome and jsonl");
    if (limit_option_.given() && kind != FormatKind::kText)
      return absl::InvalidArgumentError("--limit is for packets and events");
    uint64_t most = UINT64_MAX;
    if (!max_size_.empty()) {
      const std::optional<uint64_t> size = ParseBytes(max_size_);
      if (!size || kind != FormatKind::kEvents)
        return absl::InvalidArgumentError(
            !size ? absl::StrCat(max_size_, " is not a size, in --max-file-size. Give 512MiB")
                  : "--max-file-size is for formats of events");
      most = *size;
    }
    if (output_.empty() && console->out_style().terminal && IsBinary(format))
      return absl::InvalidArgumentError(
          absl::StrCat(format, " is not text. Name a file with -o, or redirect the output"));
    Output output(console);
    GPUMEM_RETURN_IF_ERROR(output.Open(output_));
    if (arguments.size() > 2) return absl::InvalidArgumentError(absl::StrCat(format, " is of one trace"));
    const std::vector<std::string> places(arguments.begin() + 1, arguments.end());
    GPUMEM_ASSIGN_OR_RETURN(const int code, ExportAs(kind, format, places, most, &output, console));
    GPUMEM_RETURN_IF_ERROR(output.Close());
    return code;
  }

 private:
  absl::StatusOr<int> ExportTrace(const std::vector<std::string>& places, Console* console) const {
    const TraceOptions& trace = view_.trace;
    if (trace.filters() || limit_option_.given() || !max_size_.empty())
      return absl::InvalidArgumentError("trace is of whole traces: flags that choose among events are not for it");
    if (!names_ && (trace.json || trace.symbols.given()))
      return absl::InvalidArgumentError("--json and flags of symbols are for trace --names");
    if (!names_) return WriteRecoveredTraces({places, output_, in_place_, delete_}, console);
    if (delete_ || trace.symbols.no_native_symbols)
      return absl::InvalidArgumentError("--delete and --no-native-symbols are not for --names");
    return WriteNamedTraces({places, output_, in_place_, trace.json, trace.symbols}, console);
  }

  absl::StatusOr<int> ExportTables(const std::vector<std::string>& places, Console* console) const {
    if (view_.trace.filters() || view_.trace.json || !max_size_.empty()) {
      return absl::InvalidArgumentError(
          "parquet is of whole traces. gpumemshim sql --format parquet -o FILE writes what a query chooses");
    }
    if (output_.empty()) return absl::InvalidArgumentError("Parquet is not text. Name a folder with -o");
    GPUMEM_ASSIGN_OR_RETURN(
        const bool is_partial,
        ExportParquet(places, output_, {view_.trace.symbols, partition_ == "rank", jobs_}, console));
    return is_partial ? kExitDamaged : kExitFine;
  }

  static void NoteEnd(const LoadedTrace& loaded, Console* console) {
    const Analysis& analysis = loaded.analysis;
    if (analysis.complete || analysis.snapshot || loaded.is_damaged()) return;
    console->Complain(absl::StrCat(
        analysis.path,
        analysis.state == Analysis::Process::kRunning
            ? ": the program still runs. The export ends with what it has recorded so far."
            : " has no end: the program was killed, or still runs. The export ends with what was recorded."));
  }

  absl::StatusOr<int> ExportAs(FormatKind kind, const std::string& format, const std::vector<std::string>& places,
                               uint64_t most, Output* output, Console* console) {
    switch (kind) {
      case FormatKind::kEvents:
        return ExportEvents(format, places, most, output, console);
      case FormatKind::kStacks:
        return ExportStacks(format, places, output, console);
      case FormatKind::kTool:
        return ExportToolFile(format, places, output, console);
      case FormatKind::kText:
        return ExportText(format == "events", places, output, console);
      default:
        return ExportNumbers(places, output, console);
    }
  }

  // The analysis is of the whole trace, as times count from its first event.
  static TraceOptions WithoutWindow(TraceOptions options) {
    options.from.clear();
    options.to.clear();
    return options;
  }

  absl::StatusOr<int> ExportEvents(const std::string& format, const std::vector<std::string>& places, uint64_t most,
                                   Output* output, Console* console) {
    GPUMEM_ASSIGN_OR_RETURN(const TraceOptions timed, WithTimes(view_.trace, places, console));
    GPUMEM_ASSIGN_OR_RETURN(const AnalyzeOptions window, timed.ForAnalyze());
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(WithoutWindow(timed), places, console));
    ExportRequest request{window.device, window.layer, window.from_ns, window.to_ns, most != UINT64_MAX};
    // As if taken by the program's last line: a later snapshot would show nothing but what its teardown left.
    if (format == "pytorch" && timed.to.empty() && loaded->analysis.program_end_ns != 0)
      request.to_ns = loaded->input.Since(loaded->analysis.program_end_ns);
    const auto more = [&] { return output->written() < most && !output->failed(); };
    ExportResult result;
    if (format == "pytorch") {
      GPUMEM_ASSIGN_OR_RETURN(result, ExportPyTorch(request, loaded.get(), output->sink(), more));
    } else if (format == "hta") {
      GPUMEM_ASSIGN_OR_RETURN(result, ExportHta(request, loaded.get(), output->sink(), more));
    } else {
      const std::unique_ptr<Exporter> exporter = MakeExporter(format, loaded.get(), output->sink());
      GPUMEM_ASSIGN_OR_RETURN(result, RunExport(request, loaded.get(), exporter.get(), more));
    }
    if (result.was_cut && !output->failed())
      console->Complain(
          absl::StrCat("stopped at --max-file-size after ", FormatCount(result.written_events), " events"));
    NoteEnd(*loaded, console);
    return ExitCodeOf(*loaded);
  }

  static std::unique_ptr<Exporter> MakeExporter(const std::string& format, LoadedTrace* loaded, TextSink sink) {
    if (format == "csv") return MakeCsvExporter(loaded, std::move(sink));
    if (format == "jsonl") return MakeJsonLinesExporter(loaded, std::move(sink));
    if (format == "rmm") return MakeRmmExporter(loaded, std::move(sink));
    if (format == "perfetto") return MakePerfettoExporter(loaded, std::move(sink));
    return MakeChromeExporter(loaded, std::move(sink));
  }

  absl::StatusOr<int> ExportText(bool of_events, const std::vector<std::string>& places, Output* output,
                                 Console* console) const {
    if (view_.trace.filters() && !of_events)
      return absl::InvalidArgumentError("--device, --layer, --from and --to choose events: gpumemshim export events");
    PacketTextRequest request{.place = places.empty() ? "" : places.front(), .json = view_.trace.json, .limit = limit_};
    GPUMEM_ASSIGN_OR_RETURN(const TraceOptions timed, WithTimes(view_.trace, places, console));
    GPUMEM_ASSIGN_OR_RETURN(request.filter, timed.ForAnalyze());
    const PacketTextOutput out{output->sink(), [output] { return output->failed(); }};
    return of_events ? WriteEventLines(request, out, console) : WritePackets(request, out, console);
  }

  absl::StatusOr<int> ExportToolFile(const std::string& format, const std::vector<std::string>& places, Output* output,
                                     Console* console) {
    GPUMEM_ASSIGN_OR_RETURN(const TraceOptions timed, WithTimes(view_.trace, places, console));
    GPUMEM_ASSIGN_OR_RETURN(const AnalyzeOptions window, timed.ForAnalyze());
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(WithoutWindow(timed), places, console));
    ToolFile file{format, {window.device, LayerFilter::kAll, window.from_ns, window.to_ns}, output_};
    GPUMEM_RETURN_IF_ERROR(WriteToolFile(file, loaded.get(), output->sink()));
    NoteEnd(*loaded, console);
    return ExitCodeOf(*loaded);
  }

  absl::StatusOr<int> ExportNumbers(const std::vector<std::string>& places, Output* output, Console* console) const {
    GPUMEM_ASSIGN_OR_RETURN(const TraceOptions timed, WithTimes(view_.trace, places, console));
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(timed, places, console));
    GPUMEM_RETURN_IF_ERROR(WriteOpenMetrics(loaded.get(), output->sink()));
    NoteEnd(*loaded, console);
    return ExitCodeOf(*loaded);
  }

  absl::StatusOr<int> ExportStacks(const std::string& format, const std::vector<std::string>& places, Output* output,
                                   Console* console) {
    GPUMEM_ASSIGN_OR_RETURN(const auto view, LoadView(view_, {}, places, console));
    if (view->aggregated.merged_entries > 0 && format != "collapsed")  // which has them in a line
      console->Complain(absl::StrCat(FormatBytes(view->aggregated.merged.bytes), " of very small stacks are left out"));
    if (format == "pprof") {
      WritePprof(view.get(), count_, output->sink());
    } else if (format == "speedscope") {
      WriteSpeedscope(view.get(), count_, output->sink());
    } else {
      const StackTree tree(view->aggregated, view->frames.get());
      WriteCollapsedStacks(tree, *view->frames, count_, output->sink());
    }
    NoteEnd(*view->trace, console);
    return ExitCodeOf(*view->trace);
  }

  ViewOptions view_;
  std::string output_, max_size_, partition_ = "rank";
  size_t jobs_ = 0;
  uint64_t limit_ = 0;
  Flag limit_option_;
  bool count_ = false, names_ = false, in_place_ = false, delete_ = false;
  FlagGroup of_stacks_, of_traces_;
};

}  // namespace

std::unique_ptr<Command> MakeExportCommand() { return std::make_unique<ExportCommand>(); }

}  // namespace gpumem
