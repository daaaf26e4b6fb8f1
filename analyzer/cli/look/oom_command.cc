// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <optional>

#include "answers/oom/oom_story.h"
#include "answers/report/peak_without.h"
#include "answers/report/sections.h"
#include "answers/report/verdict.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/look/what_if.h"
#include "cli/trace_options.h"
#include "ledger/load/ground.h"
#include "ledger/load/leaks.h"
#include "render/draw.h"

namespace gpumem {
namespace {

class OomCommand final : public Command {
 public:
  absl::string_view name() const override { return "oom"; }
  CommandPlace place() const override { return {CommandGroup::kReport, 4}; }
  absl::string_view summary() const override {
    return "why it ran out of memory: who asked, who filled it, what would have fit";
  }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Explains the last request that failed for good: who asked, where the device's memory was, what PyTorch tried
before it gave up, what would have fit, which stacks filled the device, which blocks pin mostly empty
segments, and what to do, with the evidence for each. Other failures are grouped by the line that asked.
Requests that succeeded after memory was released are counted. What would have fit with expandable segments is
found by running the requests in an installed PyTorch's own allocator (gpumemshim replay), which takes some seconds;
without a PyTorch, or with --no-replay, it is an estimate, and called one.

  gpumemshim oom                                 the newest trace here
  gpumemshim oom run.gmtrace --top 20 --full-stacks
  gpumemshim oom --to 90                         as of 90 s: an earlier failure
  gpumemshim oom --no-replay                     at once
  gpumemshim oom --check && echo "it all fit"    exit code 1 if a request failed for good
  gpumemshim oom --json | jq '.ooms[-1] | {requested_bytes, would_have_fit_bytes, cause}'
)";
  }

  void AddFlags(Flags* flags) override {
    trace_.AddFlags(flags);
    trace_.AddSourceFlag(flags);
    list_.AddFlags(flags, 10);
    what_if_.AddFlag(flags);
    flags->Add("--check", &check_, "exit code 1 where a request failed for good, 7 where the file cannot tell");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadSection(trace_, arguments, console));
    GPUMEM_ASSIGN_OR_RETURN(const auto leaks,
                            LoadLeaks("", loaded.get()));  // growth fills a device, whatever asks last
    GPUMEM_ASSIGN_OR_RETURN(const auto without, PeakWithout::Count(loaded.get(), DeviceOfVerdict(loaded->input)));
    const std::optional<WhatIfAnswer> what_if = AskWhatIf(arguments, loaded.get(), console);
    const Document answer = OomAnswer(loaded->input, what_if.has_value() ? &*what_if : nullptr,
                                      list_.ForText(Detail::kFull), list_.ForJson());
    console->Print(trace_.json ? ToJson(answer) : ToText(answer, console->out_style()));
    const OomEvent* oom = OomToExplain(loaded->analysis.ooms);
    const bool failed = oom != nullptr && oom->final;
    if (!check_ || loaded->is_damaged()) return ExitCodeOf(*loaded);
    if (failed) return kExitCheckFailed;
    return GroundOf(loaded->analysis).has_failures ? ExitCodeOf(*loaded) : kExitNotKnown;
  }

 private:
  // Of the request that is explained, where it was PyTorch's own and can be replayed.
  std::optional<WhatIfAnswer> AskWhatIf(const std::vector<std::string>& arguments, LoadedTrace* loaded,
                                        Console* console) const {
    const OomEvent* const explained = ReplayableFailure(loaded->analysis);
    if (explained == nullptr) return std::nullopt;
    std::optional<WhatIfAnswer> answer = what_if_.Ask(arguments, {{}, explained->device, explained}, console);
    if (answer.has_value()) TakeFit(*explained, &*answer, &loaded->analysis);
    return answer;
  }

  WhatIfFlag what_if_;
  TraceOptions trace_;
  ListOptions list_;
  bool check_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeOomCommand() { return std::make_unique<OomCommand>(); }

}  // namespace gpumem
