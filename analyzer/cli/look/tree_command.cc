// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/views/tree_view.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/look/view_options.h"

namespace gpumem {
namespace {

class TreeCommand final : public Command {
 public:
  absl::string_view name() const override { return "tree"; }
  CommandPlace place() const override { return {CommandGroup::kLook, 7}; }
  absl::string_view summary() const override { return "who allocated, as a call tree"; }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Shows the calls that led to memory as a tree, the largest branch first: what was alive at the peak, or with
--leaks, --total or --temporary what was never freed, everything, or what was freed at once. A chain of calls
without branches is one line; branches below --percent-limit are summed up. Native frames are trimmed to
operators and backward nodes; --native full shows all. Without --device: the GPU with the largest peak.

  gpumemshim tree
  gpumemshim tree --by module                    under the modules of the model, or --by stage, category
  gpumemshim tree --invert --depth 3             what allocated, then its callers
  gpumemshim tree --leaks --from 60              what came after the first minute and stayed
  gpumemshim tree --temporary --sort count       buffers that could be reused
  gpumemshim tree --module '^torch\.optim' --split thread
  gpumemshim tree --json | jq '.nodes[] | select(.self_bytes > 0) | {label, self_bytes}'
)";
  }

  void AddFlags(Flags* flags) override {
    view_.AddFlags(flags);
    view_.AddGroupFlag(flags);
    limit_option_ = flags->Add("--percent-limit", &text_.percent_limit, "smallest share that has a line (1)")
                        .Value("PERCENT")
                        .Percentage();
    flags->Add("--no-collapse", &no_collapse_, "a line for each call, also in a chain");
    flags->Add("--sort", &sort_, "by bytes or by count").Value("WHAT").OneOf({"bytes", "count"});
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    GPUMEM_ASSIGN_OR_RETURN(const auto view, LoadView(view_, {}, arguments, console));
    const StackTree tree(view->aggregated, view->frames.get());
    const ViewInput input = view->input();
    text_.collapse = !no_collapse_;
    text_.by_count = sort_ == "count";
    const Document answer = TreeAnswer(tree, input, text_, limit_option_.given() ? text_.percent_limit : 0);
    if (view_.trace.json) {
      WriteJson(answer, SinkOf(console));
    } else {
      console->Print(ToText(answer, console->out_style()));
    }
    return ExitCodeOf(*view->trace);
  }

 private:
  ViewOptions view_;
  TreeOptions text_;
  Flag limit_option_;
  bool no_collapse_ = false;
  std::string sort_ = "bytes";
};

}  // namespace

std::unique_ptr<Command> MakeTreeCommand() { return std::make_unique<TreeCommand>(); }

}  // namespace gpumem
