// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "commands/command.h"
#include "commands/commands.h"
#include "commands/trace_options.h"
#include "json/answers.h"
#include "loading/leaks.h"
#include "report/oom_story.h"
#include "report/sections.h"

namespace gpumem {
namespace {

class OomCommand final : public Command {
 public:
  absl::string_view name() const override { return "oom"; }
  absl::string_view summary() const override {
    return "why it ran out of memory: who asked, who filled it, what would have fit";
  }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Explains the last request that failed for good: who asked, where the device's memory was, what PyTorch tried
before it gave up, what would have fit, which stacks filled the device, which blocks pin mostly empty
segments, and what to do, with the evidence for each. Other failures are grouped by the line that asked.
Requests that succeeded after memory was released are counted. What would have fit with expandable segments is an
estimate; gpumem replay finds it out, by PyTorch's own allocator.

  gpumem oom                                 the newest trace here
  gpumem oom run.gmtrace --top 20 --full-stacks
  gpumem oom --to 90                         as of 90 s: an earlier failure
  gpumem oom --check && echo "it all fit"    exit code 1 if a request failed for good
  gpumem oom --json | jq '.ooms[-1] | {requested_bytes, would_have_fit_bytes, cause}'
)";
  }

  void AddFlags(Flags* flags) override {
    trace_.AddFlags(flags);
    list_.AddFlags(flags, 10);
    flags->Add("--check", &check_, "exit code 1 where a request failed for good");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(trace_, arguments, console));
    GPUMEM_ASSIGN_OR_RETURN(const auto leaks,
                            LoadLeaks("", loaded.get()));  // growth fills a device, whatever asks last
    if (trace_.json) {
      console->Print(OomJson(loaded->input, list_.ForJson()));
    } else {
      Page page(console->out_style());
      AddHead(loaded->input, Detail::kBrief, &page);
      AddOomExplanation(loaded->input, list_.ForText(Detail::kFull), &page);
      page.Gap();
      AddNotes(loaded->input, &page);
      console->Print(page.text());
    }
    const OomEvent* oom = OomToExplain(loaded->analysis.ooms);
    const bool failed = check_ && oom != nullptr && oom->final;
    return failed && !loaded->is_damaged() ? static_cast<int>(kExitCheckFailed) : ExitCodeOf(*loaded);
  }

 private:
  TraceOptions trace_;
  ListOptions list_;
  bool check_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeOomCommand() { return std::make_unique<OomCommand>(); }

}  // namespace gpumem
