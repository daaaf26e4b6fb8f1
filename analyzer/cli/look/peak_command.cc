// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/sections.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/trace_options.h"
#include "render/draw.h"

namespace gpumem {
namespace {

class PeakCommand final : public Command {
 public:
  absl::string_view name() const override { return "peak"; }
  CommandPlace place() const override { return {CommandGroup::kReport, 1}; }
  absl::string_view summary() const override { return "when memory was highest, and what was alive then, by stack"; }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Lists what was alive at the peak, grouped by line of your code (or --by stack), with bytes and number of
blocks; then other peaks nearly as high. Without --device: the GPU with the largest peak. Without --measure:
allocated memory, or total if PyTorch allocated nothing.

  gpumemshim peak --top 20
  gpumemshim peak --measure reserved             who made PyTorch's segments
  gpumemshim peak --measure total                with NCCL, cuBLAS and your own CUDA calls
  gpumemshim peak --full-stacks --top 3
  gpumemshim peak --json | jq '.stacks[0].frames[0]'
)";
  }

  void AddFlags(Flags* flags) override {
    trace_.AddFlags(flags);
    list_.AddFlags(flags, 10);
    flags->Add("--measure", &measure_, "allocated, reserved or total")
        .Value("WHAT")
        .OneOf({"allocated", "reserved", "total"});
    flags->Add("--plateaus", &trace_.plateaus, "most near-peaks, the peak included (5)").Value("K").Between(1, 100);
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadSection(trace_, arguments, console));
    const DeviceAnalysis* device = LargestDevice(loaded->analysis);
    const Measure measure = device == nullptr ? Measure::kAllocated : Chosen(*device);
    const Document answer = PeakAnswer(loaded->input, device, measure, list_.ForText(Detail::kFull), list_.ForJson());
    console->Print(trace_.json ? ToJson(answer) : ToText(answer, console->out_style()));
    return ExitCodeOf(*loaded);
  }

 private:
  Measure Chosen(const DeviceAnalysis& device) const {
    if (measure_ == "allocated") return Measure::kAllocated;
    if (measure_ == "reserved") return Measure::kReserved;
    return measure_ == "total" ? Measure::kTotal : DefaultMeasure(device);
  }

  TraceOptions trace_;
  ListOptions list_;
  std::string measure_;
};

}  // namespace

std::unique_ptr<Command> MakePeakCommand() { return std::make_unique<PeakCommand>(); }

}  // namespace gpumem
