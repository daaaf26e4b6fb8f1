// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/bisect/looks.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/compare/diff.h"
#include "answers/compare/load_run.h"
#include "base/output_file.h"
#include "base/secrets.h"
#include "base/status_macros.h"
#include "planner/predict/planned_run.h"
#include "planner/sweep/measured_row.h"
#include "symbols/symbol_cache.h"

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;

constexpr double kWaitSeconds = 0.1;

std::string BaseIdentity(const RunRequest& run, const std::string& version) {
  const DeviceProfile& device = run.device;
  std::error_code error;
  return absl::StrCat("bisect, gpumemshim ", version, "\nin ", fs::current_path(error).string(), "\n",
                      absl::StrJoin(WithoutSecrets(run.command), " \x1f"), "\nsteps ", run.steps,
                      run.on_gpu ? " on the GPU" : "", "\n", device.full_name, " ", device.memory_mib, " ",
                      device.capability, "\ndata ", run.data_dependent, " ", run.pins, " ", run.shares, " values ",
                      static_cast<int>(run.values), "\nworkspaces ", run.workspaces, "\n");
}

absl::StatusOr<RunFacts> FactsOf(const std::string& trace) {
  LoadRequest request;
  request.place = trace;
  request.symbols.cache_folder = SymbolCache::DefaultFolder();
  GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedTrace> loaded, LoadTrace(request));
  GPUMEM_ASSIGN_OR_RETURN(std::vector<RunFacts> facts, LoadRunFacts({}, loaded.get()));
  return std::move(facts.front());
}

}  // namespace

Looks::Looks(RunRequest base, SimulationTools tools, std::string measure, RunPool::Start start,
             const std::string& version, SweepJournal* journal, Console* console)
    : base_(std::move(base)),
      measure_(std::move(measure)),
      identity_(BaseIdentity(base_, version)),
      journal_(journal),
      console_(console),
      pool_(std::move(tools), journal->working_folder(), start) {}

std::optional<uint64_t> Looks::BytesOf(const SweepRow& row) const {
  if (!HasAnswer(row)) return std::nullopt;
  const uint64_t bytes = measure_ == "reserved"  ? row.peak_reserved
                         : measure_ == "process" ? row.peak_process
                                                 : row.peak_allocated;
  return bytes == 0 ? std::nullopt : std::optional<uint64_t>(bytes);
}

absl::StatusOr<SweepRow> Looks::Take(const std::string& identity, const std::string& name,
                                     const std::function<absl::Status(RunRequest*)>& prepare) {
  const std::string whole = absl::StrCat(identity_, identity, "\n");
  if (const std::optional<SweepRow> kept = journal_->Find(whole); kept.has_value()) return *kept;
  console_->Working(name);
  RunRequest run = base_;
  const absl::Status prepared = prepare(&run);
  SweepRow row;
  if (absl::IsFailedPrecondition(prepared)) {
    row.state = RowState::kFailed;
    row.reason = std::string(prepared.message());
    return row;  // not kept: it may be had another time
  }
  GPUMEM_RETURN_IF_ERROR(prepared);
  GPUMEM_ASSIGN_OR_RETURN(row, Run(name, std::move(run)));
  // What failed may run once a package is there.
  if (HasAnswer(row)) GPUMEM_RETURN_IF_ERROR(journal_->Keep(whole, row));
  return row;
}

absl::StatusOr<std::optional<uint64_t>> Looks::WithOtherValues(
    const std::string& identity, const std::function<absl::Status(RunRequest*)>& prepare) {
  const auto others = [&](RunRequest* run) {
    run->values = RunRequest::Values::kOther;
    return prepare(run);
  };
  GPUMEM_ASSIGN_OR_RETURN(const SweepRow row,
                          Take(absl::StrCat(identity, "\nother values"), "with other values", others));
  return BytesOf(row);
}

absl::StatusOr<SweepRow> Looks::Run(const std::string& name, RunRequest run) {
  const int id = static_cast<int>(++runs_);
  run.folder = absl::StrCat(journal_->working_folder(), "/", id);
  std::error_code error;
  fs::create_directories(run.folder, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make ", run.folder, ": ", error.message()));
  GPUMEM_RETURN_IF_ERROR(pool_.Begin(id, run));
  std::vector<EndedRun> ended;
  while (ended.empty()) {
    console_->Working(name);
    GPUMEM_ASSIGN_OR_RETURN(ended, pool_.Wait(kWaitSeconds));
  }
  PlannedRun read = ReadRun(std::move(ended.front().outcome), console_);
  SweepRow row = MakeRow(&read, run.on_gpu ? 0 : run.device.memory_bytes(), console_);
  if (!read.processes.empty() && !read.processes.front().trace.empty())
    GPUMEM_RETURN_IF_ERROR(KeepTrace(name, read.processes.front().trace, &row));
  fs::remove_all(run.folder, error);
  return row;
}

absl::Status Looks::KeepTrace(const std::string& name, const std::string& trace, SweepRow* row) {
  row->trace = absl::StrCat("traces/", FileNameOf({{"look", name}}), base_.on_gpu ? "" : ".simulated", ".gmtrace");
  return MoveToOutput(trace, absl::StrCat(journal_->directory(), "/", row->trace),
                      {.hint = "Give another place with --results-dir"});
}

StepCause CauseBetween(const std::string& before_trace, const std::string& after_trace) {
  absl::StatusOr<RunFacts> before = FactsOf(before_trace), after = FactsOf(after_trace);
  if (!before.ok() || !after.ok()) return {};
  const Diff diff = DiffRuns(*std::move(before), *std::move(after), /*same_trace=*/false);
  return {diff.headline, std::string(CauseKindName(diff.cause.kind)), diff.doubts};
}

}  // namespace gpumem::plan
