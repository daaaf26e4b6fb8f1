// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/planned_run.h"

#include <sys/wait.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "answers/report/state.h"
#include "base/secrets.h"
#include "planner/launch/program.h"
#include "planner/predict/forecast.h"
#include "symbols/symbol_cache.h"

namespace gpumem::plan {
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

// Of the device that the process calls `device`: CUDA_VISIBLE_DEVICES may give it another number.
int PhysicalDevice(const ProcessInfo& process, int device) {
  const auto found = process.environment.find("CUDA_VISIBLE_DEVICES");
  if (found == process.environment.end()) return device;
  const std::vector<std::string> numbers = absl::StrSplit(found->second, ',');
  int physical = device;
  const auto index = static_cast<size_t>(device);
  return device >= 0 && index < numbers.size() && absl::SimpleAtoi(numbers[index], &physical) ? physical : device;
}

std::vector<DeviceHistory> HistoriesOf(const Analysis& analysis, uint64_t ended_ns) {
  std::vector<DeviceHistory> histories;
  for (const DeviceAnalysis& device : analysis.devices) {
    DeviceHistory history;
    history.peaks = PeaksOfDevice(device);
    history.peaks.device = PhysicalDevice(analysis.process, device.device);
    history.begin_ns = analysis.origin_ns;
    history.end_ns = ended_ns == 0 ? UINT64_MAX : std::max(ended_ns, analysis.end_ns);
    for (const TimelinePoint& point : device.timeline)
      history.uses.emplace_back(point.time_ns, point.max.total + history.peaks.context);
    histories.push_back(std::move(history));
  }
  return histories;
}

PlannedProcess ProcessOf(const Analysis& analysis, const std::string& trace, ProcessResult reported,
                         uint64_t last_alloc_ns) {
  PlannedProcess process;
  process.trace = trace;
  process.reported = std::move(reported);
  process.reported.pid = static_cast<int>(analysis.process.pid);
  process.peaks = PeaksOf(analysis);
  process.devices = HistoriesOf(analysis, process.reported.ended_ns);
  process.name = absl::StrJoin(WithoutSecrets(analysis.process.command_line), " ");
  process.managed = analysis.managed_peak;
  process.pinned_host = analysis.host_pinned_peak;
  for (const OomEvent& event : analysis.ooms) {
    if (!event.final) continue;
    ++process.refused;
    process.largest_refused = std::max(process.largest_refused, event.requested);
    process.gave_up = last_alloc_ns < event.time_ns;
  }
  return process;
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
    uint64_t last_alloc_ns = 0;
    request.look = [&](const OpenTrace& open) { counts = CountHostReads(open, &last_alloc_ns); };
    absl::StatusOr<std::unique_ptr<LoadedTrace>> read = LoadTrace(request);
    if (!read.ok()) {
      console->Complain(read.status().message());
      continue;
    }
    std::unique_ptr<LoadedTrace> loaded = *std::move(read);
    if (loaded->is_damaged()) console->Complain(DamageText(loaded->input));
    PlannedProcess process =
        ProcessOf(loaded->analysis, trace, reported[static_cast<int>(loaded->analysis.process.pid)], last_alloc_ns);
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
  if (run->processes.empty() && !run->outcome.processes.empty()) {
    run->processes.emplace_back();
    run->processes.front().reported = run->outcome.processes.front();
  }
}

// What the fullest device holds, of all of them.
void AddUp(PlannedRun* run) {
  run->shared = SharedDevices(run->processes);
  if (run->shared.empty()) return;
  uint64_t& together = run->processes.front().peaks.together;
  together = run->shared.front().in_time;
  for (const size_t process : run->shared.front().processes) together += run->processes[process].managed;
}

// Of the process that needs most.
TimeSpent TimeOf(const PlannedRun& run, double reading_s) {
  const RunOutcome& outcome = run.outcome;
  TimeSpent time;
  if (outcome.waited_s > 0) {
    time.imports_s = outcome.imported_s;
    time.interpreter_s = outcome.waited_s - outcome.imported_s;
  }
  const ProcessResult reported = run.processes.empty() ? ProcessResult() : run.processes.front().reported;
  const auto since_start = [&](uint64_t ns) {
    return std::clamp(static_cast<double>(ns) * 1e-9 - outcome.started, 0.0, outcome.seconds);
  };
  const double cuda = reported.cuda_ns == 0 ? outcome.seconds : since_start(reported.cuda_ns);
  const double first_step = reported.first_step_ns == 0 ? cuda : since_start(reported.first_step_ns);
  time.before_cuda_s = outcome.waited_s + cuda;
  if (reported.first_step_ns != 0) time.first_step_s = first_step - cuda;
  time.later_s = outcome.seconds - first_step;
  time.reading_s = reading_s;
  return time;
}

}  // namespace

PlannedRun ReadRun(RunOutcome outcome, Console* console) {
  PlannedRun run;
  run.outcome = std::move(outcome);
  run.exit_code = ExitCodeOf(run.outcome.status);
  run.end = EndOf(run.outcome, run.exit_code);
  const double begun = MonotonicSeconds();
  ReadTraces(console, &run);
  AddUp(&run);
  run.time = TimeOf(run, MonotonicSeconds() - begun);
  return run;
}

bool Succeeded(const PlannedRun& run) { return run.answered() && !IsCutShort(run.end); }

std::string StuckPlace(const PlannedRun& run) {
  if (run.end != RunEnd::kSpins || run.reads.empty()) return StuckAt(run.outcome.stuck_stacks);
  return std::max_element(run.reads.begin(), run.reads.end(),
                          [](const HostRead& a, const HostRead& b) { return a.count < b.count; })
      ->site;
}

}  // namespace gpumem::plan
