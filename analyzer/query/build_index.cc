// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/build_index.h"

#include <sys/stat.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_output.h"
#include "base/output_file.h"
#include "base/status_macros.h"
#include "ledger/load/attribute.h"
#include "query/database.h"
#include "query/row_tables.h"
#include "query/small_tables.h"

namespace gpumem {
namespace {

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
  HalfWritten half_written(HalfWritten::NameFor(file.path)), log(half_written.path() + ".wal");
  RemovePlainFile(log.path());  // of an earlier process of this number: DuckDB would take it for this file's
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
  GPUMEM_RETURN_IF_ERROR(MoveToOutput(half_written.path(), file.path, {.hint = ""}));
  half_written.Keep();
  return absl::OkStatus();
}

}  // namespace gpumem
