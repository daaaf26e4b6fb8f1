// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/build_index.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_output.h"
#include "base/status_macros.h"
#include "loading/attribute.h"
#include "query/database.h"
#include "query/row_tables.h"
#include "query/small_tables.h"

namespace gpumem {
namespace {

// A file that goes when it is not kept: with this object, and where a signal ends the program.
class HalfWritten {
 public:
  explicit HalfWritten(std::string path) : path_(std::move(path)), log_(path_ + ".wal") {
    current_ = this;
    Remove();  // of an earlier process of this number: DuckDB would take its log for this file's
    for (size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction action {};
      action.sa_handler = &RemoveAndGo;
      sigaction(kSignals[i], &action, &before_[i]);
    }
  }
  HalfWritten(const HalfWritten&) = delete;
  HalfWritten& operator=(const HalfWritten&) = delete;
  ~HalfWritten() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
    current_ = nullptr;
    Remove();
  }

  const std::string& path() const { return path_; }
  void Keep() { path_.clear(); }

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};

  void Remove() const {
    if (path_.empty()) return;
    unlink(path_.c_str());
    unlink(log_.c_str());
  }
  static void RemoveAndGo(int signal) {
    if (current_ != nullptr) current_->Remove();
    std::signal(signal, SIG_DFL);
    raise(signal);
  }

  static HalfWritten* current_;
  std::string path_, log_;
  std::array<struct sigaction, 3> before_{};
};

HalfWritten* HalfWritten::current_ = nullptr;

// `share` of the work, in hundredths, from `begin` on.
RowTables::Progress ProgressOf(const LoadProgress& progress, uint64_t events) {
  if (!progress) return nullptr;
  return [progress, events](int pass, uint64_t done) {
    const uint64_t all = 3 * events;
    progress("building the index", std::min(all - 1, (pass == 1 ? 0 : events) + done), all);
  };
}

absl::Status Fill(LoadedTrace* loaded, const LoadProgress& progress, Database* database) {
  const EventCounts& counts = loaded->analysis.events;
  GPUMEM_RETURN_IF_ERROR(database->Execute("BEGIN TRANSACTION"));
  uint64_t end_event = 0;
  {
    RowTables tables(loaded, database, ProgressOf(progress, counts.torch + counts.runtime + counts.driver + 1));
    GPUMEM_RETURN_IF_ERROR(RunAnalyses(*loaded, {&tables}));
    GPUMEM_RETURN_IF_ERROR(tables.Finish());
    end_event = tables.end_event();
  }
  AttributionRequest request;
  request.modules = true;
  GPUMEM_ASSIGN_OR_RETURN(const auto attribution, AttributeLoaded(request, "", loaded));
  GPUMEM_RETURN_IF_ERROR(WriteModules(*attribution, database));
  loaded->input.attribution = nullptr;
  GPUMEM_RETURN_IF_ERROR(WriteCounters(*loaded, database));
  GPUMEM_RETURN_IF_ERROR(WriteLosses(loaded->analysis, database));
  GPUMEM_RETURN_IF_ERROR(WriteProcess(*loaded, end_event, database));
  GPUMEM_RETURN_IF_ERROR(database->Execute("COMMIT"));
  return database->Execute("CHECKPOINT");
}

}  // namespace

absl::Status BuildIndex(const IndexFile& file, LoadedTrace* loaded, const LoadProgress& progress) {
  GPUMEM_RETURN_IF_ERROR(MakeIndexFolder(file.folder));
  RemoveStaleIndexes(file);
  HalfWritten half_written(absl::StrCat(file.path, ".tmp.", getpid()));
  const mode_t mask = umask(0077);
  absl::StatusOr<std::unique_ptr<Database>> database =
      Database::Open(half_written.path(),
                     {{"memory_limit", kIndexMemory}, {"temp_directory", ""}, {"preserve_insertion_order", "true"}});
  absl::Status status = database.ok() ? Fill(loaded, progress, database->get()) : database.status();
  if (database.ok()) database->reset();  // closed before it gets its name
  umask(mask);
  if (!status.ok()) {
    return absl::Status(absl::IsInvalidArgument(status) ? absl::StatusCode::kUnavailable : status.code(),
                        absl::StrCat("no index in ", file.folder, ": ", status.message()));
  }
  if (rename(half_written.path().c_str(), file.path.c_str()) != 0) return FileError("write", file.path);
  half_written.Keep();
  return absl::OkStatus();
}

}  // namespace gpumem
