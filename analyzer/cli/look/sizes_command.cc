// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/views/lists.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/look/view_options.h"

namespace gpumem {
namespace {

class SizesCommand final : public Command {
 public:
  absl::string_view name() const override { return "sizes"; }
  CommandPlace place() const override { return {CommandGroup::kReport, 10}; }
  absl::string_view summary() const override { return "how large allocations are, and which lines make most of them"; }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Shows the sizes of all allocations by powers of two, the sizes with the most bytes, and the lines that
allocate the most bytes and most often. Counts everything that was allocated; --peak, --leaks and --temporary
narrow it to what was alive at the peak, never freed, or freed at once.

  gpumemshim sizes
  gpumemshim sizes --peak                        what the peak is made of
  gpumemshim sizes --measure reserved            the segments that PyTorch asked CUDA for
  gpumemshim sizes --temporary --top 10
  gpumemshim sizes --json | jq '.buckets[] | [.from_bytes, .count]'
)";
  }

  void AddFlags(Flags* flags) override {
    view_.AddSelectionFlags(flags);
    view_.AddFrameFlags(flags);
    view_.usual_mode = ViewMode::kTotal;
    top_option_ = flags->Add("--top,--limit", &top_, "longest list; 0 = all (5)").Value("K");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    if (view_.native.empty()) view_.native = "none";  // lines are wanted, not operators
    ViewNeeds needs;
    needs.by_size = true;
    GPUMEM_ASSIGN_OR_RETURN(const auto view, LoadView(view_, needs, arguments, console));
    SizesLists lists;
    lists.histogram = HistogramOf(view->aggregated);
    lists.by_bytes = Locations(view->aggregated, view->frames.get(), LocationKind::kLine, LocationOrder::kSelf);
    lists.by_count = lists.by_bytes;
    SortLocations(LocationOrder::kCount, &lists.by_count);
    const ViewInput input = view->input();
    PrintAnswer(SizesAnswer(lists, view_.trace.json && !top_option_.given() ? 0 : top_, input), view_.trace.json,
                console);
    return ExitCodeOf(*view->trace);
  }

 private:
  ViewOptions view_;
  size_t top_ = 5;
  Flag top_option_;
};

}  // namespace

std::unique_ptr<Command> MakeSizesCommand() { return std::make_unique<SizesCommand>(); }

}  // namespace gpumem
