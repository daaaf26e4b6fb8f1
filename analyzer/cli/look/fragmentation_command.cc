// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <optional>

#include "answers/report/sections.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/look/what_if.h"
#include "cli/trace_options.h"
#include "render/draw.h"

namespace gpumem {
namespace {

class FragmentationCommand final : public Command {
 public:
  absl::string_view name() const override { return "fragmentation"; }
  CommandPlace place() const override { return {CommandGroup::kReport, 5}; }
  absl::string_view summary() const override {
    return "free space inside PyTorch's segments, and the blocks that pin them";
  }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Replays the trace to show how free space is spread inside PyTorch's segments: how much, in how many ranges,
and the largest range. external = 1 - largest / free: near 100 % means much free space but no room for a
large request. rounding is the difference between block sizes and requested sizes. The list below names the
blocks that keep mostly empty segments from being released: freeing a block marked "alone" would release its
whole segment. Where the peak of reserved is well above that of allocated, or a request failed, all are run with
expandable segments in an installed PyTorch's own allocator (gpumemshim replay), which takes some seconds.

  gpumemshim fragmentation --device 0
  gpumemshim fragmentation --no-replay            at once
  gpumemshim fragmentation --json | jq '.devices[0].fragmentation.at_peak'
)";
  }

  void AddFlags(Flags* flags) override {
    trace_.AddFlags(flags);
    list_.AddFlags(flags, 10);
    what_if_.AddFlag(flags);
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadSection(trace_, arguments, console));
    std::optional<WhatIfAnswer> what_if;
    if (const OomEvent* const failure = ReplayableFailure(loaded->analysis)) {
      what_if = what_if_.Ask(arguments, {{}, failure->device}, console);
    } else {
      what_if_.AskOfRun(arguments, UINT64_MAX, loaded.get(), &what_if, console);
    }
    const Document answer = FragmentationAnswer(loaded->input, what_if.has_value() ? &*what_if : nullptr,
                                                list_.ForText(Detail::kFull), list_.ForJson());
    console->Print(trace_.json ? ToJson(answer) : ToText(answer, console->out_style()));
    return ExitCodeOf(*loaded);
  }

 private:
  WhatIfFlag what_if_;
  TraceOptions trace_;
  ListOptions list_;
};

}  // namespace

std::unique_ptr<Command> MakeFragmentationCommand() { return std::make_unique<FragmentationCommand>(); }

}  // namespace gpumem
