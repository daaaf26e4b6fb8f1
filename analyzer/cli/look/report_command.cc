// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <optional>

#include "answers/report/peak_without.h"
#include "answers/report/sections.h"
#include "answers/report/verdict.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/look/folder_report.h"
#include "cli/look/what_if.h"
#include "cli/trace_options.h"
#include "ledger/load/attribute.h"
#include "ledger/load/find_traces.h"
#include "ledger/load/leaks.h"
#include "ledger/load/moment.h"
#include "ledger/stacks/lives.h"
#include "render/draw.h"

namespace gpumem {
namespace {

constexpr size_t kTop = 4;

class ReportCommand final : public Command {
 public:
  absl::string_view name() const override { return "report"; }
  CommandPlace place() const override { return {CommandGroup::kLook, 1}; }
  absl::string_view summary() const override { return "one screen: verdict, peak, lines, timeline; or its sections"; }
  absl::string_view arguments() const override { return "[SECTION...] [FLAGS] [FILE|DIR]"; }
  bool has_sections() const override { return true; }
  absl::string_view help() const override {
    return R"(Shows on one screen what a program used GPU memory for, and what to do: a verdict (out of memory, growing,
full, fragmented), the peak by category and by line of code, the timeline, and the reconciliation with
nvidia-smi. --full adds leaks, fragmentation, marks and notes. Without FILE: the newest *.gmtrace here. For
a DIR with several traces: its processes, who started whom, which used most, how each ended. With SECTIONs:
these, in full, with the flags that all of them have. A file with a section's name is given as ./peak.

  gpumemshim report                              the newest trace here
  gpumemshim report runs/                        all processes of a job
  gpumemshim report --from 10 --to 12.5          what happened between these seconds
  gpumemshim report peak leaks run.gmtrace       two sections; gpumemshim peak is one
  gpumemshim report --json | jq '.devices[].peak'
)";
  }

  void AddFlags(Flags* flags) override {
    trace_.AddFlags(flags);
    trace_.AddSourceFlag(flags);
    list_.AddFlags(flags, kTop);
    flags_.AddFlags(flags);
    what_if_.AddFlag(flags);
    flags->Add("--full", &full_, "all of it: leaks, fragmentation, marks, the device's memory, notes");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    if (!arguments.empty()) {
      const std::vector<std::string> traces = TracesOfFolder(arguments.front());
      if (traces.size() > 1) return ReportFolder(arguments.front(), traces, trace_, console);
    }
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(trace_, arguments, console));
    std::unique_ptr<LoadedAttributor> attributor;
    GPUMEM_ASSIGN_OR_RETURN(const auto finder, LoadedLeakFinder::Make("", loaded.get()));
    std::vector<TwoPassAnalysis*> analyses{finder->analysis()};
    const std::vector<MomentQuery> snapshots = SnapshotQueries(loaded->analysis);
    if (SaysWhatFor(loaded->analysis) || !snapshots.empty()) {
      AttributionRequest request;
      request.moments = {ParseMoment("peak", *loaded)};
      request.steps = true;  // in which of them the peak recurs
      request.moments.insert(request.moments.end(), snapshots.begin(), snapshots.end());
      GPUMEM_ASSIGN_OR_RETURN(attributor, LoadedAttributor::Make(std::move(request), flags_.rules, loaded.get()));
      analyses.push_back(attributor->analysis());
    }
    const auto without = PeakWithout::Make(loaded.get(), DeviceOfVerdict(loaded->input), "", kMostReplayed);
    std::optional<LoadedLives> lives;
    if (without != nullptr) analyses.push_back(lives.emplace(loaded.get(), without.get()).analysis());
    GPUMEM_RETURN_IF_ERROR(RunAnalyses(*loaded, analyses));
    if (lives.has_value()) GPUMEM_RETURN_IF_ERROR(lives->Finish());
    loaded->input.without = without.get();
    const std::unique_ptr<LeakFindings> leaks = finder->Take(loaded.get());
    const std::unique_ptr<Attribution> attribution = attributor ? attributor->Take(loaded.get()) : nullptr;
    std::optional<WhatIfAnswer> what_if;
    what_if_.AskOfRun(arguments, kMostReplayed, loaded.get(), &what_if, console);
    const TextOptions options = list_.ForText(Detail::kBrief);
    const Document answer = ReportAnswer(loaded->input, options, full_ || options.full_stacks, list_.ForJson(kJsonTop));
    console->Print(trace_.json ? ToJson(answer) : ToText(answer, console->out_style()));
    return ExitCodeOf(*loaded);
  }

 private:
  static constexpr size_t kJsonTop = 20;              // of each list: `gpumemshim peak --json` and its like have all
  static constexpr uint64_t kMostReplayed = 300'000;  // events, which take three seconds; gpumemshim explain takes more
  WhatIfFlag what_if_;
  TraceOptions trace_;
  ListOptions list_;
  AttributionFlags flags_;
  bool full_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeReportCommand() { return std::make_unique<ReportCommand>(); }

}  // namespace gpumem
