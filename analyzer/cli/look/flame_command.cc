// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <array>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "answers/views/load_view.h"
#include "base/format.h"
#include "base/phrases.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/look/view_file.h"
#include "cli/look/view_options.h"
#include "web/flame_data.h"
#include "web/flame_page.h"

namespace gpumem {
namespace {

constexpr char kPageEnding[] = ".flame.html";
constexpr size_t kDefaultNodes = 100'000;
constexpr std::array kModes = {ViewMode::kPeak, ViewMode::kLeaks, ViewMode::kTotal, ViewMode::kTemporary,
                               ViewMode::kAverage};

class FlameCommand final : public Command {
 public:
  absl::string_view name() const override { return "flame"; }
  CommandPlace place() const override { return {CommandGroup::kLook, 6}; }
  absl::string_view summary() const override { return "who allocated, by call stack, as one offline HTML page"; }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR] [-o OUT.html]"; }
  absl::string_view help() const override {
    return R"(Writes one HTML page that shows every call stack as boxes as wide as their memory: at the peak, at the end,
in total, temporary, and on average (bytes x lifetime). The page works offline and sends nothing. Click to zoom, search by regular
expression, invert, hide native frames, split by thread or device; ? lists all keys. Without -o the page is
NAME.flame.html beside the trace; -o - writes to standard output. Flags that choose a view set what is
shown first; the page has all five.

  gpumemshim flame                               of the newest trace here
  gpumemshim flame run.gmtrace -o flame.html
  gpumemshim flame --leaks --from 60 --min-size 1M
  gpumemshim flame --average                     bytes x lifetime: what was held long
  gpumemshim flame --invert --native full        from the allocating function outwards, every frame
  gpumemshim flame --by category                 categories at the root; also --by module, stage
  gpumemshim flame --max-nodes 500000            more of the smallest stacks, a larger page
  gpumemshim flame --json | jq '.views[] | {mode, bytes, merged_stacks}'
)";
  }

  void AddFlags(Flags* flags) override {
    view_.AddFlags(flags);
    view_.AddGroupFlag(flags);
    flags->Add("-o,--output", &output_, "where the page goes; - = standard output").Value("FILE");
    flags->Add("--flame", &flame_, "root at the bottom at first, instead of at the top");
    flags->Add("--max-nodes", &max_nodes_, "most boxes in the page; the smallest stacks beyond are merged (100000)")
        .Value("N")
        .Between(1, 10'000'000);
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override;

 private:
  // The rules of the flags; what the page itself can change is left to it.
  absl::StatusOr<FrameRules> Rules() const;
  std::vector<StackSelection> Selections() const;
  std::vector<std::string> Filters() const;
  absl::Status WritePage(const LoadedTrace& loaded, const std::string& page, const FlameTree& tree,
                         Console* console) const;

  ViewOptions view_;
  StackSelection selection_;
  std::string output_;
  bool flame_ = false;
  size_t max_nodes_ = kDefaultNodes;
};

absl::StatusOr<FrameRules> FlameCommand::Rules() const {
  GPUMEM_ASSIGN_OR_RETURN(FrameRules rules, view_.Rules());
  rules.invert = rules.split_devices = rules.split_threads = false;
  rules.depth = 0;
  return rules;
}

std::vector<StackSelection> FlameCommand::Selections() const {
  std::vector<StackSelection> selections;
  for (const ViewMode mode : kModes) {
    StackSelection selection = selection_;
    selection.by_user_stage = view_.by == "stage";
    selection.mode = mode;
    if (mode == ViewMode::kPeak && selection.measure == ViewMeasure::kHeld) selection.measure = ViewMeasure::kDefault;
    selections.push_back(std::move(selection));
  }
  return selections;
}

// Everything that leaves something out, as it was typed.
std::vector<std::string> FlameCommand::Filters() const {
  std::vector<std::string> filters;
  const auto add = [&](absl::string_view flag, const std::string& value) {
    if (!value.empty()) filters.push_back(absl::StrCat(flag, " ", value));
  };
  if (view_.trace.device >= 0) filters.push_back(absl::StrCat("--device ", view_.trace.device));
  if (view_.trace.layer != "all") add("--layer", view_.trace.layer);
  add("--measure", view_.measure);
  add("--min-size", view_.min_size);
  add("--max-size", view_.max_size);
  add("--min-age", view_.min_age);
  add("--max-age", view_.max_age);
  add("--function", view_.function);
  add("--file", view_.file);
  add("--module", view_.module);
  add("--thread", view_.thread);
  for (const std::string& ignored : view_.ignore) add("--ignore", ignored);
  return filters;
}

absl::Status FlameCommand::WritePage(const LoadedTrace& loaded, const std::string& page, const FlameTree& tree,
                                     Console* console) const {
  GPUMEM_ASSIGN_OR_RETURN(const std::string path, WriteViewFile(output_, kPageEnding, page, {&loaded}));
  console->Say(absl::StrCat(path, ": ", FormatBytes(page.size()), ", ",
                            FormatCountOf(tree.nodes().size() - 1, "frame", "frames"),
                            ". Open it in a browser; it needs no network.\n"));
  return absl::OkStatus();
}

absl::StatusOr<int> FlameCommand::Run(const std::vector<std::string>& arguments, Console* console) {
  GPUMEM_ASSIGN_OR_RETURN(selection_, view_.Selection());
  GPUMEM_ASSIGN_OR_RETURN(FrameRules rules, Rules());
  GPUMEM_ASSIGN_OR_RETURN(const StackFilters filters, view_.Filters());
  GPUMEM_ASSIGN_OR_RETURN(const TraceOptions timed, WithTimes(view_.trace, arguments, console));
  GPUMEM_ASSIGN_OR_RETURN(LoadRequest request, timed.Request(arguments, console));
  absl::StatusOr<AggregatedTrace> aggregated =
      LoadAggregated(std::move(request), [this](const Analysis&) { return Selections(); });
  console->ProgressDone();
  if (!aggregated.ok()) return aggregated.status();
  auto& [loaded, views] = *aggregated;
  ReportLoading(view_.trace, loaded.get(), console);
  GPUMEM_RETURN_IF_ERROR(CheckViewPath(ViewPath(output_, kPageEnding, *loaded), {loaded.get()}));
  SymbolizedFrames source(&loaded->stacks, loaded->symbolizer.get());
  std::unique_ptr<ViewGroups> groups;
  if (!view_.by.empty()) {
    groups = std::make_unique<ViewGroups>(view_.by, loaded.get());
    for (AggregatedStacks& view : views) {
      GPUMEM_RETURN_IF_ERROR(groups->Divide(&view));
    }
    rules.group = [&groups](const AggregatedStack& stack) { return groups->Labels(stack); };
  }
  FrameTable frames(&source, std::move(rules), loaded->analysis.process.working_directory);
  FlameInput input;
  for (AggregatedStacks& view : views) {
    FilterStacks(filters, &frames, &view);
    input.views.push_back(&view);
  }
  input.report = &loaded->input;
  input.temporary_threshold = selection_.temporary_threshold;
  input.frames = &frames;
  input.source = &source;
  input.start = {selection_.mode, view_.invert, flame_, view_.split, view_.depth};
  input.filters = Filters();
  input.generator = "gpumemshim " GPUMEM_VERSION;
  const FlameTree tree(input.views, &frames, max_nodes_);
  if (view_.trace.json) {
    console->Print(FlameJson(input, tree));
    return ExitCodeOf(*loaded);
  }
  const std::string page = FlamePage(FlameData(input, tree), LanguageOf(console->out_style().phrases));
  if (output_ == "-") {
    console->PrintFile(page);
    return ExitCodeOf(*loaded);
  }
  GPUMEM_RETURN_IF_ERROR(WritePage(*loaded, page, tree, console));
  return ExitCodeOf(*loaded);
}

}  // namespace

std::unique_ptr<Command> MakeFlameCommand() { return std::make_unique<FlameCommand>(); }

}  // namespace gpumem
