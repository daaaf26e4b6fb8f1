// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <vector>

#include "answers/training/training.h"
#include "cli/commands.h"
#include "cli/look/attributed_list.h"

namespace gpumem {
namespace {

class StagesCommand final : public AttributedList {
 public:
  absl::string_view name() const override { return "stages"; }
  CommandPlace place() const override { return {CommandGroup::kReport, 7}; }
  absl::string_view summary() const override {
    return "memory of model load, set-up, training, evaluation, and stages you named";
  }
  absl::string_view help() const override {
    return R"(Lists the stages of the run with their memory at start, peak and end, their growth and duration: model load,
data preparation, wrapping (DDP, FSDP, PEFT), optimizer set-up, privacy engine set-up, training, evaluation,
checkpoints. They are inferred from allocation stacks. Stages that the program names (docs/marks.md,
docs/python.md) are listed too, including everything that happens in them.

  gpumemshim stages
  gpumemshim stages --top 0 run.gmtrace
  gpumemshim stages --json | jq '.stages[] | {stage, start_bytes, peak_bytes, end_bytes}'
)";
  }

 private:
  AttributionRequest Request() const override {
    AttributionRequest request;
    request.stages = true;
    return request;
  }
  void Narrow(const ReportInput& input, Attribution* attribution) const override {
    std::erase_if(attribution->stages, [&](const AttributedStage& each) {
      return each.row.end.time_ns < input.window_start_ns() || each.row.start.time_ns > input.window_end_ns();
    });
  }
  Document Answer(const LoadedTrace& loaded, size_t top) const override { return StagesAnswer(loaded.input, top); }
};

}  // namespace

std::unique_ptr<Command> MakeStagesCommand() { return std::make_unique<StagesCommand>(); }

}  // namespace gpumem
