// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "answers/compare/diff.h"
#include "answers/compare/diff_answer.h"
#include "answers/compare/load_run.h"
#include "base/format.h"
#include "base/phrases.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/look/view_file.h"
#include "cli/trace_options.h"
#include "ledger/load/find_traces.h"
#include "render/draw.h"
#include "web/packed_data.h"
#include "web/page_data.h"
#include "web/page_trace.h"
#include "web/report_page.h"

namespace gpumem {
namespace {

constexpr size_t kMostTraces = 64;
constexpr size_t kLeastBlocks = 2'000;    // of each trace, where there are many
constexpr size_t kExactRows = 32'768;     // of all traces; a run with at most so many changes has all single events
constexpr size_t kSingleEvents = 8'192;   // of all traces that are longer
constexpr size_t kTopOfDifference = 100;  // of the lists of a difference

class HtmlCommand final : public Command {
 public:
  absl::string_view name() const override { return "html"; }
  CommandPlace place() const override { return {CommandGroup::kLook, 4}; }
  absl::string_view summary() const override { return "one offline page: timeline, any moment, leaks, steps, modules"; }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR ...] [-o OUT.html]"; }
  absl::string_view help() const override {
    return R"(Writes one HTML page to look at a run: the timeline of its memory, stacked by category, module, line or
stream; what was alive at any moment of it, as a table, a treemap, a flame graph and a map of addresses; what
leaks, its steps, its modules. Click a moment, drag to zoom, search by regular expression; ? lists all keys.
The page works from disk without a network and sends nothing. Several traces, or a folder of them, are put
side by side. Without -o the page is NAME.html beside the trace; -o - writes to standard output.

  gpumemshim html                                of the newest trace here
  gpumemshim html run.gmtrace -o report.html
  gpumemshim html snapshot.pickle                a memory snapshot of PyTorch
  gpumemshim html before.gmtrace after.gmtrace   two runs side by side
  gpumemshim html runs/                          all ranks of a job
  gpumemshim html --max-blocks 200000            more of the smallest blocks by name, a larger page
  gpumemshim html --events 120000-121000         each allocation and each free of these events
  gpumemshim html --json | jq '.traces[0].devices[0].rows.allocated'
)";
  }
  size_t most_arguments() const override { return kMostTraces; }

  void AddFlags(Flags* flags) override {
    trace_.AddFlags(flags);
    trace_.AddSourceFlag(flags);
    flags_.AddFlags(flags);
    flags->Add("-o,--output", &output_, "where the page goes; - = standard output").Value("FILE");
    flags
        ->Add("--max-blocks", &max_blocks_,
              "most blocks in the page by name; smaller ones beyond are only in its sums (40000)")
        .Value("N")
        .Between(1, 10'000'000);
    flags
        ->Add(
            "--events", &events_,
            "single events of this stretch too, by their numbers (all of a short run; else around peaks, failures and "
            "marks)")
        .Value("FROM-UNTIL");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override;

 private:
  absl::StatusOr<std::vector<std::string>> Places(const std::vector<std::string>& arguments) const;
  absl::StatusOr<PageTrace> Read(const std::string& place, size_t traces, Console* console) const;
  absl::StatusOr<std::string> Difference(const std::vector<PageTrace>& traces) const;
  absl::Status WritePage(const std::vector<PageTrace>& traces, const std::string& page, Console* console) const;

  TraceOptions trace_;
  AttributionFlags flags_;
  std::string output_, events_;
  size_t max_blocks_ = PageLimits().blocks;
};

// Folders stand for all traces in them, where several were named or there are several.
absl::StatusOr<std::vector<std::string>> HtmlCommand::Places(const std::vector<std::string>& arguments) const {
  std::vector<std::string> places;
  for (const std::string& argument : arguments) {
    const std::vector<std::string> traces = TracesOfFolder(argument);
    traces.empty() ? places.push_back(argument) : void(places.insert(places.end(), traces.begin(), traces.end()));
  }
  if (places.empty()) places.emplace_back();
  if (places.size() > kMostTraces) {
    return absl::InvalidArgumentError(absl::StrCat("a page shows at most ", kMostTraces, " traces, not ", places.size(),
                                                   ". Name some of them; gpumemshim diff takes any number"));
  }
  return places;
}

absl::StatusOr<PageTrace> HtmlCommand::Read(const std::string& place, size_t traces, Console* console) const {
  GPUMEM_ASSIGN_OR_RETURN(auto loaded, LoadTrace(trace_, {place}, console));
  PageLimits limits;
  limits.blocks = std::max(std::min(max_blocks_, kLeastBlocks), max_blocks_ / traces);
  limits.exact_rows = kExactRows / traces;
  limits.single_events = std::min(kSingleEvents / traces, limits.blocks / 4);
  if (!events_.empty()) {
    GPUMEM_ASSIGN_OR_RETURN(limits.asked, ParseEventRange(events_));
    limits.blocks += limits.asked.until - limits.asked.from;  // beside those that it has anyway
  }
  absl::StatusOr<PageTrace> trace = ReadPageTrace(
      std::move(loaded), limits, flags_.rules,
      [console](const std::string& what, uint64_t done, uint64_t all) { console->Progress(what, done, all); });
  console->ProgressDone();
  return trace;
}

// Of two traces: the second beside the first, at their peaks.
absl::StatusOr<std::string> HtmlCommand::Difference(const std::vector<PageTrace>& traces) const {
  if (traces.size() != 2) return std::string();
  std::vector<RunFacts> sides;
  for (const PageTrace& trace : traces) {
    GPUMEM_ASSIGN_OR_RETURN(auto facts,
                            RunFactsOf({"peak"}, *trace.attribution, trace.leaks.get(), trace.loaded.get()));
    sides.push_back(std::move(facts.front()));
  }
  const Diff diff = DiffRuns(std::move(sides[0]), std::move(sides[1]), false);
  return ToJson(DiffAnswer(diff, kTopOfDifference, false));
}

absl::Status HtmlCommand::WritePage(const std::vector<PageTrace>& traces, const std::string& page,
                                    Console* console) const {
  std::vector<const LoadedTrace*> read;
  for (const PageTrace& each : traces) read.push_back(each.loaded.get());
  GPUMEM_ASSIGN_OR_RETURN(const std::string path, WriteViewFile(output_, ".html", page, read));
  uint64_t blocks = 0, left_out = 0;
  for (const PageTrace& each : traces) {
    blocks += each.pass->blocks().lives().size();
    left_out += each.pass->blocks().left_out();
  }
  console->Say(absl::StrCat(
      path, ": ", FormatBytes(page.size()), ", ", FormatCountOf(blocks, "block", "blocks"),
      left_out == 0 ? std::string() : absl::StrCat(" by name, ", FormatCount(left_out), " smaller ones in sums"),
      ". Open it in a browser; it needs no network.\n"));
  return absl::OkStatus();
}

absl::StatusOr<int> HtmlCommand::Run(const std::vector<std::string>& arguments, Console* console) {
  GPUMEM_ASSIGN_OR_RETURN(const std::vector<std::string> places, Places(arguments));
  std::vector<PageTrace> traces;
  int code = kExitFine;
  for (const std::string& place : places) {
    GPUMEM_ASSIGN_OR_RETURN(PageTrace trace, Read(place, places.size(), console));
    code = std::max(code, ExitCodeOf(*trace.loaded));
    traces.push_back(std::move(trace));
  }
  std::vector<PageInput> inputs;
  for (const PageTrace& trace : traces) inputs.push_back(trace.Input());
  GPUMEM_ASSIGN_OR_RETURN(const std::string diff, Difference(traces));
  const std::string data = PageData(inputs, diff, "gpumemshim " GPUMEM_VERSION);
  if (trace_.json) {
    console->Print(data + "\n");
    return code;
  }
  const std::string page = ReportPage(PackedData(data), LanguageOf(console->out_style().phrases));
  if (output_ == "-") {
    console->PrintFile(page);
    return code;
  }
  GPUMEM_RETURN_IF_ERROR(WritePage(traces, page, console));
  return code;
}

}  // namespace

std::unique_ptr<Command> MakeHtmlCommand() { return std::make_unique<HtmlCommand>(); }

}  // namespace gpumem
