// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/look/view_file.h"
#include "cli/trace_options.h"
#include "ledger/load/find_traces.h"
#include "planner/charts/picture.h"
#include "planner/charts/plots/plot.h"
#include "web/page_trace.h"

namespace gpumem::plan {
namespace {

constexpr size_t kMostTraces = 32, kMostCurves = 8;

std::string KindNames() {
  return absl::StrJoin(PlotKinds(), ", ",
                       [](std::string* out, const PlotKindInfo& each) { absl::StrAppend(out, each.name); });
}

// "rank 0: train.41" of a job, as the page names it.
std::string NameOf(const LoadedTrace& loaded) {
  const int rank = loaded.analysis.process.rank;
  return absl::StrCat(rank < 0 ? "" : absl::StrCat("rank ", rank, ": "),
                      std::filesystem::path(ViewPath("", "", loaded)).filename().string());
}

class PlotCommand final : public Command {
 public:
  absl::string_view name() const override { return "plot"; }
  CommandPlace place() const override { return {CommandGroup::kLook, 5}; }
  absl::string_view summary() const override { return "pictures as PNG, SVG, PDF: timeline, peak, leaks, addresses"; }
  absl::string_view arguments() const override { return "KIND [FLAGS] [FILE|DIR ...] [-o OUT.png|svg|pdf]"; }
  absl::string_view help() const override {
    static const auto* const text = new std::string(absl::StrCat(
        R"(Draws a picture of a trace without a display. The ending of the file says what it is: .png, .svg or .pdf. Without
-o it is NAME.KIND.png beside the trace; -o - writes a PNG to standard output.

)",
        absl::StrJoin(PlotKinds(), "\n",
                      [](std::string* out, const PlotKindInfo& each) {
                        absl::StrAppend(out, "  ", PadRight(each.name, 15), each.about);
                      }),
        R"(

  gpumemshim plot timeline run.gmtrace -o memory.svg
  gpumemshim plot timeline --by module --across events
  gpumemshim plot timeline before.gmtrace after.gmtrace
  gpumemshim plot peak --by line -o peak.pdf
  gpumemshim plot comparison runs/               the peaks of all ranks of a job
)"));
    return *text;
  }
  size_t most_arguments() const override { return kMostTraces + 1; }

  void AddFlags(Flags* flags) override {
    trace_.AddFlags(flags);
    flags_.AddFlags(flags);
    flags->Add("-o,--output", &output_, "where the picture goes; - = standard output").Value("FILE");
    flags->Add("--by", &by_, "what is stacked, or has a bar: category (default), module, line, stream")
        .OneOf({"category", "module", "line", "stream"});
    flags->Add("--across", &across_, "time, or events: each the same width (time, where it is not mostly a wait)")
        .OneOf({"time", "events"});
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override;

 private:
  absl::StatusOr<PlotRequest> Request(const std::vector<std::string>& arguments) const;
  absl::StatusOr<std::vector<std::string>> Places(const std::vector<std::string>& arguments, PlotKind kind) const;
  absl::Status Write(const plots::Canvas& canvas, const LoadedTrace& loaded, const std::string& kind,
                     Console* console) const;

  TraceOptions trace_;
  AttributionFlags flags_;
  std::string output_, by_ = "category", across_;
};

absl::StatusOr<PlotRequest> PlotCommand::Request(const std::vector<std::string>& arguments) const {
  const std::optional<PlotKind> kind = arguments.empty() ? std::nullopt : PlotKindNamed(arguments.front());
  if (!kind.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        arguments.empty() ? "which picture?" : absl::StrCat("there is no picture \"", arguments.front(), "\"."),
        " Name one of ", KindNames(), ". Example: gpumemshim plot timeline run.gmtrace"));
  }
  PlotRequest request{.kind = *kind, .device = trace_.device};
  if (!across_.empty()) request.events = across_ == "events";
  for (size_t i = 0; i < kPageLayers; ++i) {
    if (by_ == PageLayerName(static_cast<PageLayer>(i))) request.by = static_cast<PageLayer>(i);
  }
  return request;
}

absl::StatusOr<std::vector<std::string>> PlotCommand::Places(const std::vector<std::string>& arguments,
                                                             PlotKind kind) const {
  std::vector<std::string> places;
  for (size_t i = 1; i < arguments.size(); ++i) {
    const std::vector<std::string> traces = TracesOfFolder(arguments[i]);
    if (kind != PlotKind::kComparison || traces.empty()) {
      places.push_back(arguments[i]);
    } else {
      places.insert(places.end(), traces.begin(), traces.end());
    }
  }
  if (places.empty()) places.emplace_back();
  if (places.size() > 1 && kind != PlotKind::kComparison && kind != PlotKind::kTimeline)
    return absl::InvalidArgumentError("only gpumemshim plot comparison and timeline take several traces; name one");
  if (places.size() > kMostCurves && kind == PlotKind::kTimeline) {
    return absl::InvalidArgumentError(absl::StrCat("a timeline has room for ", kMostCurves, " traces, not ",
                                                   places.size(), ". gpumemshim plot comparison takes more"));
  }
  if (places.size() > kMostTraces) {
    return absl::InvalidArgumentError(
        absl::StrCat("a picture has room for ", kMostTraces, " traces, not ", places.size(), ". Name some of them"));
  }
  return places;
}

absl::Status PlotCommand::Write(const plots::Canvas& canvas, const LoadedTrace& loaded, const std::string& kind,
                                Console* console) const {
  const std::string default_ending = absl::StrCat(".", kind, ".png");
  const std::string path = ViewPath(output_, default_ending, loaded);
  const std::string ending = absl::AsciiStrToLower(std::filesystem::path(path).extension().string());
  if (path != "-" && ending != ".png" && ending != ".svg" && ending != ".pdf") {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " does not say what picture it is. End its name with .png, .svg or .pdf"));
  }
  GPUMEM_ASSIGN_OR_RETURN(const std::string bytes,
                          ending == ".svg"   ? plots::VectorBytes(canvas, plots::VectorFormat::kSvg)
                          : ending == ".pdf" ? plots::VectorBytes(canvas, plots::VectorFormat::kPdf)
                                             : plots::PngBytes(canvas));
  if (path == "-") {
    console->PrintFile(bytes);
    return absl::OkStatus();
  }
  GPUMEM_RETURN_IF_ERROR(WriteViewFile(output_, default_ending, bytes, {&loaded}).status());
  console->Print(absl::StrCat(path, ": ", FormatBytes(bytes.size()), "\n"));
  return absl::OkStatus();
}

absl::StatusOr<int> PlotCommand::Run(const std::vector<std::string>& arguments, Console* console) {
  GPUMEM_ASSIGN_OR_RETURN(const PlotRequest request, Request(arguments));
  GPUMEM_ASSIGN_OR_RETURN(const std::vector<std::string> places, Places(arguments, request.kind));
  std::vector<PageTrace> traces;
  std::vector<PlotTrace> plotted;
  int code = kExitFine;
  for (const std::string& place : places) {
    GPUMEM_ASSIGN_OR_RETURN(auto loaded, LoadTrace(trace_, {place}, console));
    code = std::max(code, ExitCodeOf(*loaded));
    const auto progress = [console](const std::string& what, uint64_t done, uint64_t all) {
      console->Progress(what, done, all);
    };
    GPUMEM_ASSIGN_OR_RETURN(PageTrace trace, ReadPageTrace(std::move(loaded), PageLimits(), flags_.rules, progress));
    console->ProgressDone();
    traces.push_back(std::move(trace));
  }
  for (const PageTrace& trace : traces)
    plotted.push_back({trace.loaded.get(), trace.pass.get(), trace.attribution.get(), NameOf(*trace.loaded)});
  const absl::StatusOr<plots::Figure> figure = MakePlot(request, plotted);
  if (!figure.ok()) {
    return absl::Status(figure.status().code(), absl::StrCat("no picture: ", figure.status().message(),
                                                             ". gpumemshim report says what the trace has."));
  }
  const plots::Canvas canvas = plots::DrawFigure(*figure);
  GPUMEM_RETURN_IF_ERROR(Write(canvas, *traces.front().loaded, arguments.front(), console));
  return code;
}

}  // namespace
}  // namespace gpumem::plan

std::unique_ptr<gpumem::Command> gpumem::MakePlotCommand() { return std::make_unique<plan::PlotCommand>(); }
