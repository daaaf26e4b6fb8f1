// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <optional>

#include "answers/views/lists.h"
#include "answers/views/stack_list.h"
#include "answers/views/stack_tree.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/look/view_options.h"

namespace gpumem {
namespace {

class TableCommand final : public Command {
 public:
  absl::string_view name() const override { return "table"; }
  CommandPlace place() const override { return {CommandGroup::kLook, 8}; }
  absl::string_view summary() const override { return "who allocated, by line, function, operator, module, stage ..."; }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Lists where memory was allocated: what was alive at the peak, or with --leaks, --total or --temporary what
was never freed, everything, or what was freed at once. A line is one of the program's own files, as in
gpumemshim report; --by frame has the lines of PyTorch and of packages too. self is what a place
allocated as the innermost one shown; total includes everything it called.

  gpumemshim table
  gpumemshim table --by function --sort total
  gpumemshim table --by frame --native trimmed   operators of PyTorch among the frames
  gpumemshim table --by stack --leaks --top 5
  gpumemshim table --by operator                 aten::mm and the like
  gpumemshim table --by module --sort total      each module incl. submodules
  gpumemshim table --by stage --total            everything that was allocated
  gpumemshim table --by thread --total --json | jq '.rows[] | {name, bytes, count}'
)";
  }

  void AddFlags(Flags* flags) override {
    view_.AddSelectionFlags(flags);
    view_.AddFrameFlags(flags);
    flags
        ->Add(
            "--by", &by_,
            "line, frame, function, file, library, thread, stack; operator, module or component (of the model), stage, "
            "category")
        .Value("WHAT")
        .OneOf({"line", "frame", "function", "file", "library", "thread", "stack", "operator", "module", "component",
                "stage", "category"});
    flags->Add("--sort", &sort_, "by self, total or count").Value("WHAT").OneOf({"self", "total", "count"});
    top_option_ = flags->Add("--top,--limit", &top_, "longest list; 0 = all (20)").Value("K");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    // Lines of the program first: operators have a table of their own, and none is in a file.
    const bool is_of_places = by_ == "frame" || by_ == "function" || by_ == "file" || by_ == "library";
    if (view_.native.empty() && is_of_places) view_.native = "none";
    const std::optional<LocationKind> kind = ParseLocationKind(by_);
    ViewNeeds needs;
    if (kind && IsByLabels(*kind)) needs.by_labels = by_;
    GPUMEM_ASSIGN_OR_RETURN(const auto view, LoadView(view_, needs, arguments, console));
    const bool as_json = view_.trace.json;
    const size_t top = as_json && !top_option_.given() ? 0 : top_;
    const ViewInput input = view->input();
    if (kind) {
      const std::vector<Location> rows = Rows(*kind, *view);
      PrintAnswer(TableAnswer(rows, *kind, top, input), as_json, console);
    } else {
      const StackTree tree(view->aggregated, view->frames.get());
      const std::vector<StackRow> rows = StackRows(tree, sort_ == "count");
      PrintAnswer(StacksAnswer(tree, rows, top, input), as_json, console);
    }
    return ExitCodeOf(*view->trace);
  }

 private:
  std::vector<Location> Rows(LocationKind kind, const LoadedView& view) const {
    if (!IsByLabels(kind)) return Locations(view.aggregated, view.frames.get(), kind, Order());
    const auto labels = [&view](const AggregatedStack& stack) { return view.groups->RowLabels(stack); };
    return Locations(view.aggregated, labels, Order());
  }

  LocationOrder Order() const {
    if (sort_ == "total") return LocationOrder::kTotal;
    return sort_ == "count" ? LocationOrder::kCount : LocationOrder::kSelf;
  }

  ViewOptions view_;
  std::string by_ = "line", sort_ = "self";
  size_t top_ = 20;
  Flag top_option_;
};

}  // namespace

std::unique_ptr<Command> MakeTableCommand() { return std::make_unique<TableCommand>(); }

}  // namespace gpumem
