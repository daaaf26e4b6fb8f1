// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/views/stack_list.h"
#include "answers/views/stack_tree.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/look/view_options.h"

namespace gpumem {
namespace {

class StacksCommand final : public Command {
 public:
  absl::string_view name() const override { return "stacks"; }
  CommandPlace place() const override { return {CommandGroup::kLook, 9}; }
  absl::string_view summary() const override { return "who allocated, as collapsed stacks for other tools"; }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Prints one line per stack, outermost call first, with its bytes (or --count): the collapsed format that
flamegraph.pl, speedscope, inferno and others read. It selects memory as gpumemshim tree does.

  gpumemshim stacks | flamegraph.pl --countname=bytes > peak.svg
  gpumemshim stacks --total --count > churn.txt  drop it into speedscope.app
  gpumemshim stacks --native full --leaks | grep optimizer
)";
  }

  void AddFlags(Flags* flags) override {
    view_.AddFlags(flags);
    flags->Add("--count", &count_, "number of allocations instead of bytes");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    GPUMEM_ASSIGN_OR_RETURN(const auto view, LoadView(view_, {}, arguments, console));
    const StackTree tree(view->aggregated, view->frames.get());
    if (view_.trace.json) {
      const ViewInput input = view->input();
      const std::vector<StackRow> rows = StackRows(tree, count_);
      PrintAnswer(StacksAnswer("stacks", tree, rows, 0, input), true, console);
    } else {
      WriteCollapsedStacks(tree, *view->frames, count_, SinkOf(console));
    }
    return ExitCodeOf(*view->trace);
  }

 private:
  ViewOptions view_;
  bool count_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeStacksCommand() { return std::make_unique<StacksCommand>(); }

}  // namespace gpumem
