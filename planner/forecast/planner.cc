// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/forecast/planner.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "base/status_macros.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

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

absl::StatusOr<PlannedRun> Planner::Run(RunRequest request, const std::string& what) {
  GPUMEM_RETURN_IF_ERROR(MakeFolder());
  request.folder = absl::StrCat(folder_, "/", ++runs_);
  std::error_code error;
  if (!fs::create_directory(request.folder, error))
    return absl::UnavailableError(absl::StrCat("cannot make ", request.folder, ": ", error.message()));
  const std::string text = absl::StrCat("run ", runs_, ": ", what);
  GPUMEM_ASSIGN_OR_RETURN(RunOutcome outcome, RunSimulated(tools_, request, [&] { console_->Working(text); }));
  console_->ProgressDone();
  return ReadRun(std::move(outcome), console_);
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
