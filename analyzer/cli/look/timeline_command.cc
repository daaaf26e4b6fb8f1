// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/sections.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/trace_options.h"
#include "render/draw.h"

namespace gpumem {
namespace {

class TimelineCommand final : public Command {
 public:
  absl::string_view name() const override { return "timeline"; }
  CommandPlace place() const override { return {CommandGroup::kReport, 2}; }
  absl::string_view summary() const override { return "allocated, reserved, other and total memory over time"; }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Draws memory over time. allocated: PyTorch's blocks in use. reserved: its segments. other: this process's
CUDA memory outside PyTorch. total: all of it. Each point is the maximum of its time slice, so no spike is
lost; --points makes the slices finer.

  gpumemshim timeline --from 3s --to 3.2s        zoom in
  gpumemshim timeline --json --points 2000 | jq '.devices[0].timeline'
)";
  }

  void AddFlags(Flags* flags) override {
    trace_.AddFlags(flags);
    trace_.shows_stacks = false;
    flags->Add("--points,--limit", &trace_.timeline_buckets, "most points a device (240)")
        .Value("N")
        .Between(1, kMaxPoints);
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadSection(trace_, arguments, console));
    const Document answer = TimelineAnswer(loaded->input);
    console->Print(trace_.json ? ToJson(answer) : ToText(answer, console->out_style()));
    return ExitCodeOf(*loaded);
  }

 private:
  static constexpr uint32_t kMaxPoints = 1'000'000;
  TraceOptions trace_;
};

}  // namespace

std::unique_ptr<Command> MakeTimelineCommand() { return std::make_unique<TimelineCommand>(); }

}  // namespace gpumem
