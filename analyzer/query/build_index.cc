// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/build_index.h"

#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_output.h"
#include "base/output_file.h"
#include "base/status_macros.h"
#include "ledger/load/attribute.h"
#include "query/database.h"
#include "query/event_rows.h"
#include "query/life_rows.h"
#include "query/small_tables.h"

namespace gpumem {
namespace {

LoadedLives::Progress ProgressOf(const LoadedTrace& loaded, const LoadProgress& progress) {
  if (!progress) return nullptr;
  const EventCounts& counts = loaded.analysis.events;
  return [progress, events = counts.torch + counts.runtime + counts.driver + 1](int replay, uint64_t done) {
    const uint64_t all = 3 * events;
    progress("building the index", std::min(all - 1, (replay == 1 ? 0 : events) + done), all);
  };
}

absl::Status WriteLives(LoadedTrace* loaded, const LoadProgress& progress, Database* database) {
  LifeRows rows(loaded, database);
  LoadedLives lives(loaded, &rows, ProgressOf(*loaded, progress));
  AttributionRequest request;
  request.modules = request.steps = true;
  GPUMEM_ASSIGN_OR_RETURN(const auto attributor, LoadedAttributor::Make(request, "", loaded));
  GPUMEM_RETURN_IF_ERROR(RunAnalyses(*loaded, {attributor->analysis(), lives.analysis()}));
  GPUMEM_RETURN_IF_ERROR(lives.Finish());
  GPUMEM_RETURN_IF_ERROR(rows.Close());
  const std::unique_ptr<Attribution> attribution = attributor->Take(loaded);
  loaded->input.attribution = nullptr;
  GPUMEM_RETURN_IF_ERROR(WriteSteps(*attribution, loaded->input, database));
  GPUMEM_RETURN_IF_ERROR(WriteModules(*attribution, database));
  GPUMEM_RETURN_IF_ERROR(WriteOwners(loaded->input, database));
  GPUMEM_RETURN_IF_ERROR(WriteLosses(loaded->analysis, database));
  return WriteProcess(*loaded, rows.end_event(), database);
}

absl::Status Fill(IndexPart part, LoadedTrace* loaded, const LoadProgress& progress, Database* database) {
  GPUMEM_RETURN_IF_ERROR(database->Execute("BEGIN TRANSACTION"));
  GPUMEM_RETURN_IF_ERROR(part == IndexPart::kLives ? WriteLives(loaded, progress, database)
                                                   : WriteEvents(loaded, ProgressOf(*loaded, progress), database));
  GPUMEM_RETURN_IF_ERROR(database->Execute("COMMIT"));
  return database->Execute("CHECKPOINT");
}

}  // namespace

absl::Status BuildIndex(IndexPart part, const IndexFile& file, LoadedTrace* loaded, const LoadProgress& progress) {
  GPUMEM_RETURN_IF_ERROR(MakeIndexFolder(file.folder));
  RemoveStaleIndexes(file);
  HalfWritten half_written(HalfWritten::NameFor(file.path)), log(half_written.path() + ".wal");
  RemovePlainFile(log.path());  // of an earlier process of this number: DuckDB would take it for this file's
  const mode_t mask = umask(0077);
  absl::StatusOr<std::unique_ptr<Database>> database =
      Database::Open(half_written.path(),
                     {{"memory_limit", kIndexMemory}, {"temp_directory", ""}, {"preserve_insertion_order", "true"}});
  absl::Status status = database.ok() ? Fill(part, loaded, progress, database->get()) : database.status();
  if (database.ok()) database->reset();  // closed before it gets its name
  umask(mask);
  if (!status.ok()) {
    return absl::Status(absl::IsInvalidArgument(status) ? absl::StatusCode::kUnavailable : status.code(),
                        absl::StrCat("no index in ", file.folder, ": ", status.message()));
  }
  GPUMEM_RETURN_IF_ERROR(MoveToOutput(half_written.path(), file.path, {.hint = ""}));
  half_written.Keep();
  return absl::OkStatus();
}

}  // namespace gpumem
