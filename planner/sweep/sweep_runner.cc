// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/sweep_runner.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/format.h"
#include "base/output_file.h"
#include "base/secrets.h"
#include "base/status_macros.h"
#include "planner/launch/program.h"
#include "planner/sweep/measured_row.h"

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;

constexpr double kWaitSeconds = 0.1;
constexpr uint64_t kGuessedRssKib = 2 << 20;  // of a run, before one has ended
constexpr int kTight = 1'000'000;             // added to the number of a run with no more memory than there is

int Processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

uint64_t AvailableKib() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  for (uint64_t value = 0; file >> name >> value;) {
    if (name == "MemAvailable:") return value;
    file.ignore(100, '\n');
  }
  return UINT64_MAX;
}

std::string IdentityOf(const RunRequest& run, const std::string& version) {
  std::error_code error;
  std::string text = absl::StrCat("gpumemshim ", version, "\nin ", fs::current_path(error).string(), "\n",
                                  absl::StrJoin(WithoutSecrets(run.command), " \x1f"), "\n");
  for (const auto& [name, value] : run.environment)
    absl::StrAppend(&text, name, "=", WithoutSecrets(name, value), "\n");
  absl::StrAppend(&text, "script ", ScriptState(run.command), "\nsteps ", run.steps, "\n");
  if (run.on_gpu) return absl::StrCat(text, "on the machine's GPU\n");
  const DeviceProfile& device = run.device;
  return absl::StrCat(text, device.full_name, " ", device.memory_mib, " ", device.capability, " ",
                      device.multiprocessors, " x ", run.device_count, "\nrank ", run.rank, " of ", run.world_size,
                      ", ", run.local_world_size, "\ndata ", run.data_dependent, " ", run.pins, " ", run.shares, " ",
                      run.routing, " values ", static_cast<int>(run.values), "\nworkspaces ", run.workspaces, "\n");
}

// Values as rows, pictures and file names have them. A masked one gets the number of its configuration, so that two
// stay two.
Configuration ShownValues(Configuration values, int number) {
  for (auto& [axis, value] : values) {
    const std::string masked = WithoutSecrets(axis, value);
    if (masked != value) value = absl::StrCat(masked, "#", number);
  }
  return values;
}

// Why a configuration failed, with "{}" for each word that is its value of that axis.
std::string WithoutValues(const SweepRow& row) {
  std::vector<std::string> words = absl::StrSplit(row.reason, ' ');
  for (std::string& word : words) {
    const auto is_word = [&](const auto& value) { return value.second == word; };
    const auto found = std::find_if(row.values.begin(), row.values.end(), is_word);
    if (found != row.values.end()) word = "{}";
  }
  return absl::StrJoin(words, " ");
}

std::string ValuesText(const Configuration& values) {
  std::vector<std::string> parts;
  for (const auto& [axis, value] : values) parts.push_back(absl::StrCat(axis, "=", value));
  return absl::StrJoin(parts, " ");
}

}  // namespace

SweepRunner::SweepRunner(const SweepSpec& spec, std::vector<Configuration> configurations, RunRequest base,
                         SimulationTools tools, SweepOptions options, SweepJournal* journal, Console* console)
    : spec_(spec),
      configurations_(std::move(configurations)),
      base_(std::move(base)),
      options_(std::move(options)),
      journal_(journal),
      console_(console),
      pool_(std::make_unique<RunPool>(std::move(tools), journal->working_folder(),
                                      options_.forks ? RunPool::Start::kForked : RunPool::Start::kFresh)) {}

absl::Status SweepRunner::Prepare() {
  for (size_t i = 0; i < configurations_.size(); ++i) {
    Item item;
    item.number = static_cast<int>(i) + 1;
    item.run = base_;
    GPUMEM_ASSIGN_OR_RETURN(const VariedCommand varied, CommandOf(spec_, configurations_[i]));
    item.run.command = varied.command;
    item.run.environment = varied.environment;
    item.identity = IdentityOf(item.run, options_.tool_version);
    item.row.values = ShownValues(configurations_[i], item.number);
    if (!options_.fresh) {
      const std::optional<SweepRow> row = journal_->Find(item.identity);
      if (row.has_value() && (HasAnswer(*row) || !options_.retry)) {
        item.row = *row;
        item.row.values = ShownValues(configurations_[i], item.number);
        item.is_done = true;
        ++kept_;
      }
    }
    item.row.number = item.number;
    items_.push_back(std::move(item));
  }
  done_ = kept_;
  return absl::OkStatus();
}

std::deque<size_t> SweepRunner::Waiting() const {
  std::deque<size_t> waiting;
  for (size_t i = 0; i < items_.size(); ++i) {
    if (!items_[i].is_done) waiting.push_back(i);
  }
  if (waiting.size() > 2) {
    waiting.insert(waiting.begin() + 1, waiting.back());
    waiting.pop_back();
  }
  return waiting;
}

bool SweepRunner::AllFailAlike() const {
  if (items_.size() < 2 || !items_.front().is_done || !items_.back().is_done) return false;
  const std::string first = WithoutValues(items_.front().row);
  return std::all_of(items_.begin(), items_.end(), [&](const Item& item) {
    return !item.is_done || (item.row.state == RowState::kFailed && WithoutValues(item.row) == first);
  });
}

bool SweepRunner::HasRoom() const {
  if (pool_->running() == 0) return true;
  const int workers = options_.workers > 0 ? options_.workers : base_.on_gpu ? 1 : Processors();
  if (pool_->running() >= static_cast<size_t>(workers)) return false;
  const uint64_t rss = largest_rss_kib_ == 0 ? kGuessedRssKib : largest_rss_kib_ + largest_rss_kib_ / 4;
  return options_.workers > 0 || AvailableKib() >= rss;
}

absl::StatusOr<std::vector<SweepRow>> SweepRunner::Run() {
  GPUMEM_RETURN_IF_ERROR(Prepare());
  std::deque<size_t> waiting = Waiting();
  while (!waiting.empty() || pool_->running() > 0) {
    if (AllFailAlike()) left_ += std::exchange(waiting, {}).size();
    while (!waiting.empty() && HasRoom()) {
      GPUMEM_RETURN_IF_ERROR(Begin(waiting.front(), false));
      waiting.pop_front();
    }
    console_->Progress("configurations", done_, items_.size());
    GPUMEM_ASSIGN_OR_RETURN(std::vector<EndedRun> ended, pool_->Wait(kWaitSeconds));
    for (EndedRun& one : ended) GPUMEM_RETURN_IF_ERROR(TakeIn(std::move(one)));
  }
  console_->ProgressDone();
  std::vector<SweepRow> rows;
  for (Item& item : items_) {
    if (item.is_done) rows.push_back(std::move(item.row));
  }
  return rows;
}

absl::Status SweepRunner::Begin(size_t index, bool tight) {
  RunRequest run = items_[index].run;
  const int id = static_cast<int>(index) + (tight ? kTight : 0);
  run.overcommit = !tight;
  run.folder = absl::StrCat(journal_->working_folder(), "/", id);
  std::error_code error;
  fs::create_directories(run.folder, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make ", run.folder, ": ", error.message()));
  return pool_->Begin(id, run);
}

absl::Status SweepRunner::TakeIn(EndedRun ended) {
  const bool was_tight = ended.id >= kTight;
  const size_t index = static_cast<size_t>(was_tight ? ended.id - kTight : ended.id);
  Item& item = items_[index];
  largest_rss_kib_ = std::max(largest_rss_kib_, ended.rss_kib);
  const std::string folder = absl::StrCat(journal_->working_folder(), "/", ended.id);
  PlannedRun run = ReadRun(std::move(ended.outcome), console_);
  std::error_code ignored;
  if (was_tight) {
    if (Succeeded(run)) {
      item.row.reason = absl::StrCat("wants ", FormatBytes(item.row.peak_process),
                                     ", and gets through with less: PyTorch gives its cache back");
      item.row.state = RowState::kFits;
    }
    fs::remove_all(folder, ignored);
    return Finish(&item);
  }
  SweepRow row = MakeRow(&run, base_.on_gpu ? 0 : base_.device.memory_bytes(), console_);
  row.number = item.number;
  row.values = item.row.values;
  item.row = std::move(row);
  GPUMEM_RETURN_IF_ERROR(KeepTraces(&item, run));
  fs::remove_all(folder, ignored);
  // What is allocated cannot be given back.
  const bool may_get_through = !base_.on_gpu && Succeeded(run) && item.row.state == RowState::kOutOfMemory &&
                               item.row.peak_allocated < item.row.capacity;
  return may_get_through ? Begin(index, true) : Finish(&item);
}

absl::Status SweepRunner::KeepTraces(Item* item, const PlannedRun& run) {
  const char* const kind = base_.on_gpu ? "" : ".simulated";
  bool is_first = true;
  for (const PlannedProcess& process : run.processes) {
    if (process.trace.empty()) continue;
    const std::string rank = run.processes.size() > 1 ? absl::StrCat(".", process.reported.pid) : "";
    const std::string name = absl::StrCat("traces/", FileNameOf(item->row.values), rank, kind, ".gmtrace");
    GPUMEM_RETURN_IF_ERROR(MoveToOutput(process.trace, absl::StrCat(journal_->directory(), "/", name),
                                        {.hint = "Give another place with --results-dir"}));
    if (is_first) item->row.trace = name;
    is_first = false;
  }
  return absl::OkStatus();
}

absl::Status SweepRunner::Finish(Item* item) {
  item->is_done = true;
  ++done_;
  GPUMEM_RETURN_IF_ERROR(journal_->Keep(item->identity, item->row));
  Report(*item);
  return absl::OkStatus();
}

void SweepRunner::Report(const Item& item) {
  console_->Progress(absl::StrCat(ValuesText(item.row.values), ": ", RowStateName(item.row.state)), done_,
                     items_.size());
}

}  // namespace gpumem::plan
