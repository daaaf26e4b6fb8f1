// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "answers/compare/diff_answer.h"
#include "answers/compare/load_run.h"
#include "answers/compare/run_table.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/trace_options.h"
#include "ledger/load/find_traces.h"
#include "render/draw.h"

namespace gpumem {
namespace {

class DiffCommand final : public Command {
 public:
  absl::string_view name() const override { return "diff"; }
  CommandPlace place() const override { return {CommandGroup::kCompare, 1}; }
  absl::string_view summary() const override { return "why one run needs more memory than another; or a table"; }
  absl::string_view arguments() const override {
    return "[FLAGS] A B | TRACE --from MOMENT --to MOMENT | [--table] TRACE|DIR...";
  }
  absl::string_view help() const override {
    return R"(Compares the peaks of two runs, or two moments of one: by category, module, line and stack, largest change
first, with what is new and what is gone. The first line names the cause: the largest coherent group of
memory that explains at least half of the difference, or a change of the program that does (layers, types,
inputs, optimizer, checkpointing, frozen parameters). If nothing does, it names the two largest groups.
Lines, functions, files and modules are matched by name; what moved or was renamed is shown as such.
Moments are those of gpumemshim at: peak, end, a time, step N, a mark.

Three runs or more, a folder of several, or with --table any number: a table, one run a row. Peaks of allocated,
reserved and all CUDA memory, what of the reserved peak no tensor uses, growth a step, the largest category at
the peak, and how the run ended. The smallest of each column is marked with *, if the run completed and lost
nothing.

  gpumemshim diff yesterday.gmtrace today.gmtrace
  gpumemshim diff run.gmtrace --from 'step 10' --to 'step 500'
  gpumemshim diff a.gmtrace b.gmtrace --from 'step 3' --to 'step 3'
  gpumemshim diff a.gmtrace b.gmtrace --by stack --top 20
  gpumemshim diff a.gmtrace b.gmtrace --json | jq -r .headline
  gpumemshim diff runs/ --sort reserved           every rank of a job
  gpumemshim diff a.gmtrace b.gmtrace c.gmtrace --json | jq '.runs | min_by(.peak_allocated_bytes) | .trace'
)";
  }
  size_t most_arguments() const override { return 10'000; }

  void AddFlags(Flags* flags) override {
    flags->Add("--json", &trace_.json, "exact numbers for machines (docs/json.md)");
    flags->Add("--device", &trace_.device, "only this GPU (the one with the largest peak)").Value("N").AtLeastZero();
    const Flag from = flags->Add("--from", &from_, "moment of A, or the first one of TRACE (peak)").Value("MOMENT");
    const Flag to = flags->Add("--to", &to_, "moment of B, or the second one of TRACE (peak)").Value("MOMENT");
    top_option_ = flags->Add("--top,--limit", &top_, "longest list; 0 = all (10)").Value("K");
    const Flag by = flags->Add("--by", &by_, "line, or also by stack").Value("WHAT").OneOf({"line", "stack"});
    flags_.AddFlags(flags);
    flags->Add("--table", &table_, "a table of the runs, two or more");
    sort_option_ = flags->Add("--sort", &sort_, "the table by name, or smallest first by allocated, reserved or total")
                       .Value("WHAT")
                       .OneOf({"name", "allocated", "reserved", "total"});
    trace_.symbols.AddFlags(flags);
    of_two_runs_ = {{"--from", from}, {"--to", to}, {"--top", top_option_}, {"--by", by}};
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    if (IsTable(arguments)) return Tabulate(arguments, console);
    if (arguments.empty() || (arguments.size() == 1 && from_.empty() && to_.empty())) {
      return absl::InvalidArgumentError(
          "two runs, or two moments of one, are compared: gpumemshim diff a.gmtrace b.gmtrace, or gpumemshim diff "
          "a.gmtrace --from 'step 10' --to 'step 500'; or a folder of several runs, in a table");
    }
    const std::string from = from_.empty() ? "peak" : from_, to = to_.empty() ? "peak" : to_;
    const bool same_trace = arguments.size() == 1;
    std::vector<RunFacts> sides;
    GPUMEM_RETURN_IF_ERROR(Load(arguments[0], same_trace ? Moments{from, to} : Moments{from}, console, &sides));
    if (!same_trace) GPUMEM_RETURN_IF_ERROR(Load(arguments[1], {to}, console, &sides));
    const bool is_damaged = sides[0].is_damaged || sides[1].is_damaged;
    const Diff diff = DiffRuns(std::move(sides[0]), std::move(sides[1]), same_trace);
    const Document answer = DiffAnswer(diff, trace_.json && !top_option_.given() ? 0 : top_, by_ == "stack");
    console->Print(trace_.json ? ToJson(answer) : ToText(answer, console->out_style()));
    return is_damaged ? kExitDamaged : kExitFine;
  }

 private:
  using Moments = std::vector<std::string>;

  bool IsTable(const std::vector<std::string>& arguments) const {
    if (table_ || sort_option_.given() || arguments.size() > 2) return true;
    return arguments.size() == 1 && from_.empty() && to_.empty() && TracesOfFolder(arguments.front()).size() > 1;
  }

  // A folder stands for all traces in it.
  absl::StatusOr<int> Tabulate(const std::vector<std::string>& arguments, Console* console) {
    for (const auto& [name, flag] : of_two_runs_) {
      if (flag.given())
        return absl::InvalidArgumentError(absl::StrCat(name, " is of two runs, not of a table of them"));
    }
    std::vector<RunFacts> runs;
    for (const std::string& argument : arguments.empty() ? std::vector<std::string>{"."} : arguments) {
      std::vector<std::string> places = TracesOfFolder(argument);
      if (places.empty()) places.push_back(argument);
      for (const std::string& place : places) {
        GPUMEM_RETURN_IF_ERROR(Load(place, {"peak"}, console, &runs));
        runs.back().groups.clear();  // of many runs only the totals are kept
      }
    }
    SortRuns(sort_, &runs);
    const Document answer = CompareAnswer(runs);
    console->Print(trace_.json ? ToJson(answer) : ToText(answer, console->out_style()));
    const bool any_damaged = std::any_of(runs.begin(), runs.end(), [](const RunFacts& run) { return run.is_damaged; });
    return any_damaged ? kExitDamaged : kExitFine;
  }

  absl::Status Load(const std::string& place, const Moments& moments, Console* console, std::vector<RunFacts>* sides) {
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(trace_, {place}, console));
    GPUMEM_ASSIGN_OR_RETURN(auto facts, LoadRunFacts({moments, flags_.rules}, loaded.get()));
    std::move(facts.begin(), facts.end(), std::back_inserter(*sides));
    return absl::OkStatus();
  }

  TraceOptions trace_;
  AttributionFlags flags_;
  std::string from_, to_, by_ = "line", sort_ = "name";
  bool table_ = false;
  size_t top_ = 10;
  Flag top_option_, sort_option_;
  std::vector<std::pair<const char*, Flag>> of_two_runs_;
};

}  // namespace

std::unique_ptr<Command> MakeDiffCommand() { return std::make_unique<DiffCommand>(); }

}  // namespace gpumem
