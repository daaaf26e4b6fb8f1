// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "commands/command.h"
#include "commands/commands.h"
#include "commands/trace_options.h"
#include "loading/findings.h"
#include "outlook/outlook.h"
#include "report/sections.h"

namespace gpumem {
namespace {

class ForecastCommand final : public Command {
 public:
  absl::string_view name() const override { return "forecast"; }
  absl::string_view summary() const override { return "whether and when memory runs out, if it goes on as it did"; }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Looks at the peaks of the training steps, not at totals that were polled: whether they grow, since when, by how
much a step, and when they reach what the GPU has left for PyTorch. A time is given as a range that holds in nine
of ten cases, and only once it has been growing for longer than it has left (docs/forecast.md has the test set).
Growth that gets less and less, that comes and goes, or that happened once is no growth here.

  gpumem forecast run.gmtrace
  gpumem forecast run.gmtrace --check      exit code 1 where memory runs out, or that is not known
  gpumem forecast --json | jq '{kind, earliest_steps, latest_steps, cause}'
)";
  }

  void AddFlags(Flags* flags) override {
    trace_.AddFlags(flags);
    flags->Add("--check", &check_, "exit code 1 where memory runs out at this rate, or that is not known");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(trace_, arguments, console));
    AttributionRequest request;
    request.steps = true;
    GPUMEM_ASSIGN_OR_RETURN(const LoadedFindings findings, LoadFindings(std::move(request), "", loaded.get()));
    const Outlook outlook = OutlookOf(loaded->input);
    if (trace_.json) {
      console->Print(OutlookJson(outlook, loaded->input));
    } else {
      Page page(console->out_style());
      AddHead(loaded->input, Detail::kBrief, &page);
      AddOutlook(outlook, &page);
      page.Gap();
      AddNotes(loaded->input, &page);
      console->Print(page.text());
    }
    const bool fails =
        outlook.forecast.kind == ForecastKind::kReaches || outlook.forecast.kind == ForecastKind::kTooShort;
    return check_ && fails && !loaded->is_damaged() ? static_cast<int>(kExitCheckFailed) : ExitCodeOf(*loaded);
  }

 private:
  TraceOptions trace_;
  bool check_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeForecastCommand() { return std::make_unique<ForecastCommand>(); }

}  // namespace gpumem
