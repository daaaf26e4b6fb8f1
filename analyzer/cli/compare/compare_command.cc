// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/compare/load_run.h"
#include "answers/compare/run_table.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/trace_options.h"
#include "ledger/load/find_traces.h"
#include "render/draw.h"

namespace gpumem {
namespace {

class CompareCommand final : public Command {
 public:
  absl::string_view name() const override { return "compare"; }
  CommandPlace place() const override { return {CommandGroup::kCompare, 3}; }
  absl::string_view summary() const override { return "a table of runs: peaks, categories, growth, best marked"; }
  absl::string_view arguments() const override { return "[FLAGS] TRACE|DIR..."; }
  absl::string_view help() const override {
    return R"(Shows runs side by side, one a row: peaks of allocated, reserved and all CUDA memory, what of the reserved peak
no tensor uses, growth a step, the largest category at the peak, and how the run ended. The smallest of each
column is marked with *, if the run completed and lost nothing. Without TRACE: the traces of this folder.

  gpumemshim compare a.gmtrace b.gmtrace c.gmtrace
  gpumemshim compare runs/                       every rank of a job
  gpumemshim compare runs/ --sort reserved
  gpumemshim compare runs/ --json | jq '.runs | min_by(.peak_allocated_bytes) | .trace'
)";
  }
  size_t most_arguments() const override { return 10'000; }

  void AddFlags(Flags* flags) override {
    flags->Add("--json", &trace_.json, "exact numbers for machines (docs/json.md)");
    flags->Add("--device", &trace_.device, "only this GPU (the one with the largest peak)").Value("N").AtLeastZero();
    flags->Add("--sort", &sort_, "by name, or smallest first by allocated, reserved or total")
        .Value("WHAT")
        .OneOf({"name", "allocated", "reserved", "total"});
    trace_.symbols.AddFlags(flags);
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    std::vector<RunFacts> runs;
    for (const std::string& argument : arguments.empty() ? std::vector<std::string>{"."} : arguments) {
      std::vector<std::string> places = TracesOfFolder(argument);
      if (places.empty()) places.push_back(argument);
      for (const std::string& place : places) {
        GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(trace_, {place}, console));
        GPUMEM_ASSIGN_OR_RETURN(auto facts, LoadRunFacts({{"peak"}, ""}, loaded.get()));
        facts.front().groups.clear();  // of many runs only the totals are kept
        runs.push_back(std::move(facts.front()));
      }
    }
    SortRuns(sort_, &runs);
    const Document answer = CompareAnswer(runs);
    console->Print(trace_.json ? ToJson(answer) : ToText(answer, console->out_style()));
    for (const RunFacts& run : runs) {
      if (run.is_damaged) return kExitDamaged;
    }
    return kExitFine;
  }

 private:
  TraceOptions trace_;
  std::string sort_ = "name";
};

}  // namespace

std::unique_ptr<Command> MakeCompareCommand() { return std::make_unique<CompareCommand>(); }

}  // namespace gpumem
