// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <CLI/App.hpp>

#include "commands/command.h"
#include "commands/commands.h"
#include "commands/trace_options.h"
#include "json/answers.h"
#include "report/sections.h"

namespace gpumem {
namespace {

class LeaksCommand final : public Command {
 public:
  absl::string_view name() const override { return "leaks"; }
  absl::string_view summary() const override {
    return "what was never freed, and what grew between two times, by stack";
  }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Lists what is alive at the end of the trace (or at --to), and which stacks hold more at --to than at --from.
A model and its optimizer state are alive at the end of every training: that is no leak. What grows from
step to step is. So choose both times at the same point of two steps.

  gpumem leaks
  gpumem leaks --from 60 --to 600            growth between minute 1 and minute 10
  gpumem leaks --json | jq '.devices[0].leaks.growth[] | {bytes, site}'
)";
  }

  void AddFlags(CLI::App* app) override {
    trace_.AddFlags(app);
    list_.AddFlags(app, 10);
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(trace_, arguments, console));
    if (trace_.json) {
      console->Print(LeaksJson(loaded->input, list_.ForJson()));
      return ExitCodeOf(*loaded);
    }
    Page page(console->out_style());
    AddHead(loaded->input, Detail::kBrief, &page);
    for (const DeviceAnalysis& device : loaded->analysis.devices)
      AddLeaks(device, loaded->input, list_.ForText(Detail::kFull), &page);
    console->Print(page.text());
    return ExitCodeOf(*loaded);
  }

 private:
  TraceOptions trace_;
  ListOptions list_;
};

}  // namespace

std::unique_ptr<Command> MakeLeaksCommand() { return std::make_unique<LeaksCommand>(); }

}  // namespace gpumem
