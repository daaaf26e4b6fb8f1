// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "commands/command.h"
#include "commands/commands.h"
#include "commands/trace_options.h"
#include "json/answers.h"
#include "report/sections.h"

namespace gpumem {
namespace {

class FragmentationCommand final : public Command {
 public:
  absl::string_view name() const override { return "fragmentation"; }
  absl::string_view summary() const override {
    return "free space inside PyTorch's segments, and the blocks that pin them";
  }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Replays the trace to show how free space is spread inside PyTorch's segments: how much, in how many ranges,
and the largest range. external = 1 - largest / free: near 100 % means much free space but no room for a
large request. rounding is the difference between block sizes and requested sizes. The list below names the
blocks that keep mostly empty segments from being released: freeing a block marked "alone" would release its
whole segment. gpumem replay finds out whether other settings of the allocator would have avoided it.

  gpumem fragmentation --device 0
  gpumem fragmentation --json | jq '.devices[0].fragmentation.at_peak'
)";
  }

  void AddFlags(Flags* flags) override {
    trace_.AddFlags(flags);
    list_.AddFlags(flags, 10);
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(trace_, arguments, console));
    if (trace_.json) {
      console->Print(FragmentationJson(loaded->input, list_.ForJson()));
      return ExitCodeOf(*loaded);
    }
    Page page(console->out_style());
    AddHead(loaded->input, Detail::kBrief, &page);
    for (const DeviceAnalysis& device : loaded->analysis.devices)
      AddFragmentation(device, loaded->input, list_.ForText(Detail::kFull), &page);
    page.Gap();
    AddNotes(loaded->input, &page);
    console->Print(page.text());
    return ExitCodeOf(*loaded);
  }

 private:
  TraceOptions trace_;
  ListOptions list_;
};

}  // namespace

std::unique_ptr<Command> MakeFragmentationCommand() { return std::make_unique<FragmentationCommand>(); }

}  // namespace gpumem
