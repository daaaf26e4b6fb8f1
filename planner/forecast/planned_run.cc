// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/forecast/planned_run.h"

#include <sys/wait.h>

#include <algorithm>
#include <map>
#include <utility>

#include "planner/forecast/host_reads.h"
#include "report/state.h"
#include "symbols/symbol_cache.h"

namespace gpumem {
namespace {

RunEnd EndOf(const RunOutcome& outcome, int exit_code) {
  if (outcome.timed_out) return RunEnd::kTimedOut;
  if (outcome.spins) return RunEnd::kSpins;
  const auto is = [&](ProcessResult::Reason reason) {
    return std::any_of(outcome.processes.begin(), outcome.processes.end(),
                       [&](const ProcessResult& process) { return process.reason == reason; });
  };
  if (is(ProcessResult::Reason::kCapability)) return RunEnd::kCapability;
  if (exit_code != 0) return RunEnd::kFailed;
  if (is(ProcessResult::Reason::kStable)) return RunEnd::kStable;
  return is(ProcessResult::Reason::kSteps) ? RunEnd::kSteps : RunEnd::kEnded;
}

int ExitCodeOf(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

void ReadTraces(Console* console, PlannedRun* run) {
  std::map<int, ProcessResult> reported;
  for (const ProcessResult& process : run->outcome.processes) reported[process.pid] = process;
  uint64_t largest = 0;
  for (const std::string& trace : run->outcome.traces) {
    HostReadCounts counts;
    LoadRequest request;
    request.place = trace;
    request.symbols.cache_folder = SymbolCache::DefaultFolder();
    request.look = [&](const OpenTrace& open) { counts = CountHostReads(open); };
    absl::StatusOr<std::unique_ptr<LoadedTrace>> read = LoadTrace(request);
    if (!read.ok()) {
      console->Complain(read.status().message());
      continue;
    }
    std::unique_ptr<LoadedTrace> loaded = *std::move(read);
    if (loaded->is_damaged()) console->Complain(DamageText(loaded->input));
    PlannedProcess process;
    process.trace = trace;
    process.reported = reported[static_cast<int>(loaded->analysis.process.pid)];
    process.reported.pid = static_cast<int>(loaded->analysis.process.pid);
    process.peaks = PeaksOf(loaded->analysis);
    if (run->loaded == nullptr || process.peaks.process > largest) {
      largest = process.peaks.process;
      run->reads = DescribeHostReads(counts, loaded->input);
      run->loaded = std::move(loaded);
    }
    run->processes.push_back(std::move(process));
  }
  std::stable_sort(run->processes.begin(), run->processes.end(),
                   [](const PlannedProcess& a, const PlannedProcess& b) { return a.peaks.process > b.peaks.process; });
  // Of a program that ended before it used memory, there is still what it said.
  if (run->processes.empty() && !run->outcome.processes.empty())
    run->processes.push_back({"", run->outcome.processes.front(), {}});
}

}  // namespace

PlannedRun ReadRun(RunOutcome outcome, Console* console) {
  PlannedRun run;
  run.outcome = std::move(outcome);
  run.exit_code = ExitCodeOf(run.outcome.status);
  run.end = EndOf(run.outcome, run.exit_code);
  ReadTraces(console, &run);
  return run;
}

bool Succeeded(const PlannedRun& run) { return run.answered() && !IsCutShort(run.end); }

std::string StuckPlace(const PlannedRun& run) {
  if (run.end != RunEnd::kSpins || run.reads.empty()) return StuckAt(run.outcome.stuck_stacks);
  return std::max_element(run.reads.begin(), run.reads.end(),
                          [](const HostRead& a, const HostRead& b) { return a.count < b.count; })
      ->site;
}

}  // namespace gpumem
