// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <CLI/CLI.hpp>
#include <vector>

#include "commands/attribute.h"
#include "commands/command.h"
#include "commands/commands.h"
#include "commands/trace_options.h"
#include "report/attribution_json.h"
#include "report/attribution_sections.h"
#include "report/sections.h"

namespace gpumem {
namespace {

class StepsCommand final : public Command {
 public:
  absl::string_view name() const override { return "steps"; }
  absl::string_view summary() const override {
    return "memory of each training step: start, peak, end, growth, and what the peak is made of";
  }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }
  absl::string_view help() const override {
    return "Lists the steps of a training with PyTorch's allocated memory at their start, peak and end. A step ends "
           "when\n"
           "the optimizer's does (the first optimizer's, where there are several), however many backward passes it "
           "had;\n"
           "where the program marks its steps (docs/marks.md) these are shown. The last steps are listed; --top 0 has "
           "all.\n"
           "\n"
           "  gpumem steps\n"
           "  gpumem steps --top 0 run.gmtrace\n"
           "  gpumem steps --json | jq '.steps[] | [.step, .peak_bytes, .growth_bytes]'\n";
  }

  void AddFlags(CLI::App* app) override {
    trace_.AddFlags(app);
    flags_.AddFlags(app);
    top_option_ = app->add_option("--top,--limit", top_, "longest list; 0 = all (20)")->type_name("K");
  }

  int Run(const std::vector<std::string>& arguments, Console* console) override {
    const auto loaded = LoadTrace(trace_, arguments, console);
    if (!loaded->readable()) return loaded->exit_code;
    AttributionRequest request;
    request.steps = true;
    const std::unique_ptr<Attribution> attribution = AttributeLoaded(flags_, request, loaded.get(), console);
    if (attribution == nullptr) return kExitUsage;
    const ReportInput& input = loaded->input;
    std::erase_if(attribution->steps, [&](const AttributedStep& each) {
      return each.step.end.time_ns < input.window_start_ns() || each.step.start.time_ns > input.window_end_ns();
    });
    if (trace_.json) {
      console->Print(StepsJson(loaded->input, top_option_->count() > 0 ? top_ : 0));
      return loaded->exit_code;
    }
    Page page(console->out_style());
    AddHead(loaded->input, Detail::kBrief, &page);
    AddSteps(loaded->input, top_, &page);
    console->Print(page.text());
    return loaded->exit_code;
  }

 private:
  TraceOptions trace_;
  AttributionFlags flags_;
  size_t top_ = 20;
  CLI::Option* top_option_ = nullptr;
};

}  // namespace

std::unique_ptr<Command> MakeStepsCommand() { return std::make_unique<StepsCommand>(); }

}  // namespace gpumem
