// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <iterator>
#include <memory>
#include <utility>

#include "answers/compare/check.h"
#include "answers/compare/diff.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/compare/load_checked_run.h"
#include "cli/trace_options.h"
#include "ledger/load/find_traces.h"

namespace gpumem {
namespace {

class CheckLimitsCommand final : public Command {
 public:
  absl::string_view name() const override { return "check"; }
  CommandPlace place() const override { return {CommandGroup::kCompare, 4}; }
  absl::string_view summary() const override { return "fail a build that needs more memory than it may"; }
  absl::string_view arguments() const override { return "[FLAGS] TRACE|DIR|PLAN.json..."; }
  absl::string_view help() const override {
    return R"(Checks runs against limits, one verdict a line: passed, failed or unknown. Limits come from flags or from a
YAML file that you commit (docs/ci.md); flags win. A run is a trace, a folder of traces (every rank), or what
gpumemshim plan --json wrote, so that a pull request is checked without a GPU. What a trace cannot answer (it is
damaged, lost events, or was cut short) is unknown, never passed.

  gpumemshim check run.gmtrace --max-peak 70GiB --max-fragmentation 20%
  gpumemshim check run.gmtrace --max-leak 1MiB/step
  gpumemshim check run.gmtrace --baseline main.gmtrace --tolerance 2%
  gpumemshim check runs/ --limits budget.yaml --format junit > memory.xml
  gpumemshim plan --json -- python train.py > plan.json; gpumemshim check plan.json --limits budget.yaml --format github

Exit code 0: all passed; 1: a limit is broken; 2: usage error; 3: a trace cannot be read. Where no limit is broken:
5: one is within a plan's range, too close to say; else 7: one is not known.
)";
  }
  size_t most_arguments() const override { return 10'000; }

  void AddFlags(Flags* flags) override {
    flags->Add("--limits", &file_, "a YAML file of limits").Value("FILE");
    flags->Add("--max-peak", &max_peak_, "PyTorch's allocated bytes: 70GiB").Value("SIZE");
    flags->Add("--max-reserved", &max_reserved_, "what PyTorch reserved").Value("SIZE");
    flags->Add("--max-total", &max_total_, "all CUDA memory that was recorded, with the context").Value("SIZE");
    flags->Add("--max-leak", &max_leak_, "what is kept from step to step: 1MiB/step").Value("SIZE");
    flags->Add("--max-fragmentation", &max_fragmentation_, "share of the reserved peak that no tensor uses: 20%")
        .Value("PERCENT");
    flags->Add("--baseline", &baseline_, "a trace or plan whose peaks are the limits").Value("FILE");
    tolerance_option_ = flags->Add("--tolerance", &tolerance_, "above the baseline: 2% (0%)").Value("PERCENT");
    flags->Add("--format", &format_, "text, json, junit or github (annotations)")
        .Value("FORMAT")
        .OneOf({"text", "json", "junit", "github"});
    flags->Add("--json", &trace_.json, "the same as --format json");
    flags->Add("--device", &trace_.device, "only this GPU (the one with the largest peak)").Value("N").AtLeastZero();
    trace_.symbols.AddFlags(flags);
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    GPUMEM_ASSIGN_OR_RETURN(const Limits limits, ChosenLimits());
    if (!limits.any()) {
      return absl::InvalidArgumentError(
          "no limit given. Like this: gpumemshim check run.gmtrace --max-peak 70GiB, or --limits budget.yaml");
    }
    GPUMEM_ASSIGN_OR_RETURN(const LoadedRun baseline, LoadBaseline(trace_, limits, console));
    std::vector<CheckLine> lines;
    for (const std::string& place : Places(arguments)) {
      GPUMEM_ASSIGN_OR_RETURN(const LoadedRun run, LoadCheckedRun(trace_, place, console));
      std::string why;
      if (run.facts && baseline.facts) why = DiffRuns(*baseline.facts, *run.facts, false).headline;
      std::vector<CheckLine> of_run =
          CheckRun(run.checked, limits, limits.baseline.empty() ? nullptr : &baseline.checked, why);
      std::move(of_run.begin(), of_run.end(), std::back_inserter(lines));
    }
    const CheckFormat format = CheckFormatOf(trace_.json ? "json" : format_);
    const std::string answer = FormatCheck(lines, format);
    format == CheckFormat::kText ? console->Say(answer) : console->Print(answer);
    return ExitCodeOfCheck(lines);
  }

 private:
  absl::StatusOr<Limits> ChosenLimits() const {
    Limits limits, of_flags;
    if (!file_.empty()) {
      GPUMEM_ASSIGN_OR_RETURN(limits, ReadLimits(file_));
    }
    const std::pair<const char*, const std::string*> flags[] = {
        {"max_peak", &max_peak_},  {"max_reserved", &max_reserved_},           {"max_total", &max_total_},
        {"max_leak", &max_leak_},  {"max_fragmentation", &max_fragmentation_}, {"baseline", &baseline_},
        {"tolerance", &tolerance_}};
    for (const auto& [key, value] : flags) {
      if (!value->empty()) GPUMEM_RETURN_IF_ERROR(SetLimit(key, *value, &of_flags));
    }
    Override(of_flags, tolerance_option_.given(), &limits);
    return limits;
  }

  static std::vector<std::string> Places(const std::vector<std::string>& arguments) {
    std::vector<std::string> places;
    for (const std::string& argument : arguments.empty() ? std::vector<std::string>{""} : arguments) {
      const std::vector<std::string> traces = TracesOfFolder(argument);
      if (traces.empty()) places.push_back(argument);
      places.insert(places.end(), traces.begin(), traces.end());
    }
    return places;
  }

  TraceOptions trace_;
  std::string file_, max_peak_, max_reserved_, max_total_, max_leak_, max_fragmentation_, baseline_, tolerance_;
  std::string format_ = "text";
  Flag tolerance_option_;
};

}  // namespace

std::unique_ptr<Command> MakeCheckCommand() { return std::make_unique<CheckLimitsCommand>(); }

}  // namespace gpumem
