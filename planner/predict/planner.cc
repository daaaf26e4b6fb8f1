// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/planner.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file_output.h"
#include "base/format.h"
#include "base/output_file.h"
#include "base/status_macros.h"
#include "planner/launch/program.h"

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxInput = 64 << 20;
constexpr double kLookSeconds = 0.1;
constexpr double kLeastSeconds = 1;  // in which a run may come to its end
constexpr size_t kMaxAtOnce = 4;     // of host memory they may want much

// Adds its lifetime to `seconds`.
class Spent {
 public:
  explicit Spent(double* seconds) : seconds_(seconds) {}
  ~Spent() { *seconds_ += MonotonicSeconds() - started_; }
  Spent(const Spent&) = delete;
  Spent& operator=(const Spent&) = delete;

 private:
  double* const seconds_;
  const double started_ = MonotonicSeconds();
};

// A "-" among the words, or an interpreter without a program.
bool ReadsInput(const std::vector<std::string>& command) {
  return command.size() == 1 || std::any_of(command.begin(), command.end(), [](const std::string& word) {
           return word == "-" || word == "/dev/stdin";
         });
}

// What a trace is called where it is kept: it must not pass for one of a GPU.
std::string KeptName(const std::string& trace) { return absl::StrCat("plan.", fs::path(trace).filename().string()); }

PlannedRun WithoutTime() {
  PlannedRun run;
  run.end = RunEnd::kTimedOut;
  run.had_no_time = true;
  run.outcome.timed_out = true;
  return run;
}

}  // namespace

Planner::~Planner() {
  pool_.reset();  // ends what writes into the folder
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

absl::Status Planner::MakeFolder() {
  if (!folder_.empty()) return absl::OkStatus();
  GPUMEM_ASSIGN_OR_RETURN(folder_, NewTemporaryFolder("plan"));
  return absl::OkStatus();
}

absl::Status Planner::KeepInput(const RunRequest& request) {
  if (input_is_kept_) return absl::OkStatus();
  input_is_kept_ = true;
  struct stat status {};
  if (fstat(STDIN_FILENO, &status) != 0 || isatty(STDIN_FILENO) != 0) return absl::OkStatus();
  // A pipe may stay open for ever, so it is read only for a program that surely reads it.
  if (!S_ISREG(status.st_mode) && !(S_ISFIFO(status.st_mode) && ReadsInput(request.command))) return absl::OkStatus();
  std::string text;
  char part[1 << 16];
  for (ssize_t count = 0; (count = read(STDIN_FILENO, part, sizeof part)) > 0;) {
    text.append(part, static_cast<size_t>(count));
    if (text.size() > kMaxInput)
      return absl::InvalidArgumentError("standard input is too long: give the program a file");
  }
  input_ = absl::StrCat(folder_, "/input");
  return WriteOutput(input_, text, {.hint = "Set TMPDIR to another place"});
}

void Planner::EndAfter(double seconds) { until_ = MonotonicSeconds() + seconds; }

bool Planner::HasTime() const { return !until_.has_value() || MonotonicSeconds() + kLeastSeconds < *until_; }

absl::Status Planner::PrepareRun(RunRequest* request) {
  if (until_.has_value()) request->timeout_s = std::min(request->timeout_s, *until_ - MonotonicSeconds());
  GPUMEM_RETURN_IF_ERROR(MakeFolder());
  GPUMEM_RETURN_IF_ERROR(KeepInput(*request));
  request->input = input_;
  request->folder = absl::StrCat(folder_, "/", ++runs_);
  std::error_code error;
  if (fs::create_directory(request->folder, error)) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot make ", request->folder, ": ", error.message()));
}

absl::StatusOr<PlannedRun> Planner::Run(RunRequest request, const std::string& what) {
  if (!HasTime()) return WithoutTime();
  const Spent spent(&spent_s_);
  GPUMEM_RETURN_IF_ERROR(PrepareRun(&request));
  const std::string text = absl::StrCat("run ", runs_, ": ", what);
  GPUMEM_ASSIGN_OR_RETURN(RunOutcome outcome, RunSimulated(tools_, request, [&] { console_->Working(text); }));
  console_->ProgressDone();
  return ReadRun(std::move(outcome), console_);
}

absl::Status Planner::MakePool() {
  if (pool_ != nullptr) return absl::OkStatus();
  const std::string servers = absl::StrCat(folder_, "/servers");
  std::error_code error;
  if (!fs::create_directory(servers, error)) return absl::UnavailableError(absl::StrCat("cannot make ", servers));
  pool_ = std::make_unique<RunPool>(tools_, servers, RunPool::Start::kForked);
  return absl::OkStatus();
}

absl::StatusOr<PlannedRun> Planner::RunAgain(RunRequest request, const std::string& what) {
  if (!HasTime()) return WithoutTime();
  const Spent spent(&spent_s_);
  GPUMEM_RETURN_IF_ERROR(PrepareRun(&request));
  GPUMEM_RETURN_IF_ERROR(MakePool());
  const std::string text = absl::StrCat("run ", runs_, ": ", what);
  GPUMEM_RETURN_IF_ERROR(pool_->Begin(runs_, request));
  while (true) {
    GPUMEM_ASSIGN_OR_RETURN(std::vector<EndedRun> ended, pool_->Wait(kLookSeconds));
    console_->Working(text);
    for (EndedRun& run : ended) {
      if (run.id != runs_) continue;
      console_->ProgressDone();
      return ReadRun(std::move(run.outcome), console_);
    }
  }
}

void Planner::RunAll(const std::vector<std::pair<RunRequest, std::string>>& runs,
                     const std::function<void(size_t, absl::StatusOr<PlannedRun>)>& ended) {
  const Spent spent(&spent_s_);
  const size_t at_once = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMaxAtOnce);
  std::map<int, size_t> running;  // index by the run's number
  std::string text;
  for (size_t next = 0; (next < runs.size() || !running.empty()) && SignalGuard::Noted() == 0;) {
    if (next < runs.size() && running.size() < at_once) {
      const size_t index = next++;
      if (!HasTime()) {
        ended(index, WithoutTime());
        continue;
      }
      RunRequest request = runs[index].first;
      absl::Status status = PrepareRun(&request);
      text = absl::StrCat("run ", runs[index].second);
      if (status.ok()) status = MakePool();
      if (status.ok()) status = pool_->Begin(runs_, request);
      if (!status.ok()) ended(index, status);
      if (status.ok()) running[runs_] = index;
      continue;
    }
    absl::StatusOr<std::vector<EndedRun>> over = pool_->Wait(kLookSeconds);
    if (!over.ok()) return;
    console_->Working(text);
    for (EndedRun& run : *over) {
      const auto found = running.find(run.id);
      if (found == running.end()) continue;
      ended(found->second, ReadRun(std::move(run.outcome), console_));
      running.erase(found);
    }
  }
  console_->ProgressDone();
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
    GPUMEM_RETURN_IF_ERROR(MoveToOutput(process.trace, to.string(), {.is_named = is_first && !is_folder}));
    process.trace = to.string();
    is_first = false;
  }
  if (run->loaded != nullptr) run->loaded->input.trace_argument = ShellQuoted(run->processes.front().trace);
  return absl::OkStatus();
}

}  // namespace gpumem::plan
