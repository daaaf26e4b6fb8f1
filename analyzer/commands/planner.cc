// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "commands/planner.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "plan/host_reads.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

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

// What a trace is called where it is kept: it must not pass for one of a GPU.
std::string KeptName(const std::string& trace) { return absl::StrCat("plan.", fs::path(trace).filename().string()); }

absl::Status Move(const std::string& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) {
    error.clear();
    fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);  // on another file system
  }
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot write ", to.string(), ": ", error.message(), ". Give another place with -o."));
}

}  // namespace

Planner::~Planner() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

absl::Status Planner::MakeFolder() {
  if (!folder_.empty()) return absl::OkStatus();
  std::error_code error;
  std::string pattern = (fs::temp_directory_path(error) / "gpumem-plan-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a folder like ", pattern, ": ", strerror(errno), ". Set TMPDIR to another place."));
  }
  folder_ = pattern;
  return absl::OkStatus();
}

void Planner::ReadTraces(PlannedRun* run) {
  std::map<int, ProcessResult> told;
  for (const ProcessResult& process : run->outcome.processes) told[process.pid] = process;
  uint64_t largest = 0;
  for (const std::string& trace : run->outcome.traces) {
    HostReadCounts counts;
    auto loaded = LoadTrace({}, {trace}, console_, [&](const OpenTrace& open) { counts = CountHostReads(open); });
    if (!loaded->readable()) continue;
    PlannedProcess process;
    process.trace = trace;
    process.told = told[static_cast<int>(loaded->analysis.process.pid)];
    process.told.pid = static_cast<int>(loaded->analysis.process.pid);
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

absl::StatusOr<PlannedRun> Planner::Run(SimulatedRun request, const std::string& what) {
  GPUMEM_RETURN_IF_ERROR(MakeFolder());
  request.folder = absl::StrCat(folder_, "/", ++runs_);
  std::error_code error;
  if (!fs::create_directory(request.folder, error))
    return absl::UnavailableError(absl::StrCat("cannot make ", request.folder, ": ", error.message()));
  PlannedRun run;
  const std::string text = absl::StrCat("run ", runs_, ": ", what);
  GPUMEM_ASSIGN_OR_RETURN(run.outcome, RunSimulated(tools_, request, [&] { console_->Working(text); }));
  console_->ProgressDone();
  run.exit_code = ExitCodeOf(run.outcome.status);
  run.end = EndOf(run.outcome, run.exit_code);
  ReadTraces(&run);
  return run;
}

absl::Status Planner::KeepTraces(const std::string& wanted, PlannedRun* run) {
  std::error_code error;
  const bool is_folder = wanted.empty() || fs::is_directory(wanted, error) || wanted.back() == '/';
  const fs::path folder = is_folder ? fs::path(wanted) : fs::path(wanted).parent_path();
  if (!folder.empty()) fs::create_directories(folder, error);
  bool is_first = true;
  for (PlannedProcess& process : run->processes) {
    if (process.trace.empty()) continue;
    const fs::path to = is_first && !is_folder ? fs::path(wanted) : folder / KeptName(process.trace);
    GPUMEM_RETURN_IF_ERROR(Move(process.trace, to));
    process.trace = to.string();
    is_first = false;
  }
  if (run->loaded != nullptr) run->loaded->input.trace_argument = ShellQuoted(run->processes.front().trace);
  return absl::OkStatus();
}

}  // namespace gpumem
