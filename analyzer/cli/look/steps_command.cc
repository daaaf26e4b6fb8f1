// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <vector>

#include "answers/training/training.h"
#include "cli/commands.h"
#include "cli/look/attributed_list.h"

namespace gpumem {
namespace {

class StepsCommand final : public AttributedList {
 public:
  absl::string_view name() const override { return "steps"; }
  CommandPlace place() const override { return {CommandGroup::kReport, 6}; }
  absl::string_view summary() const override {
    return "memory of each training step: start, peak, end, growth, categories";
  }
  absl::string_view help() const override {
    return R"(Lists the training steps with PyTorch's allocated memory at start, peak and end. A step ends when the
optimizer's step does (the first optimizer's if there are several), however many backward passes it had. If
the program marks its steps (docs/marks.md), those are shown. The last steps are listed; --top 0 lists all.

  gpumemshim steps
  gpumemshim steps --top 0 run.gmtrace
  gpumemshim steps --json | jq '.steps[] | [.step, .peak_bytes, .growth_bytes]'
)";
  }

 private:
  AttributionRequest Request() const override {
    AttributionRequest request;
    request.steps = true;
    return request;
  }
  void Narrow(const ReportInput& input, Attribution* attribution) const override {
    std::erase_if(attribution->steps, [&](const AttributedStep& each) {
      return each.step.end.time_ns < input.window_start_ns() || each.step.start.time_ns > input.window_end_ns();
    });
  }
  Document Answer(const LoadedTrace& loaded, size_t top) const override { return StepsAnswer(loaded.input, top); }
};

}  // namespace

std::unique_ptr<Command> MakeStepsCommand() { return std::make_unique<StepsCommand>(); }

}  // namespace gpumem
