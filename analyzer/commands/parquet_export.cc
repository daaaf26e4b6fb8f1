// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "commands/parquet_export.h"

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "loading/find_traces.h"
#include "query/schema.h"
#include "query/session.h"

namespace gpumem {
namespace {

// Removed where it was not renamed.
class NewFolder {
 public:
  explicit NewFolder(const std::string& path) : path_(path), temporary_(absl::StrCat(path, ".tmp.", getpid())) {}
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(temporary_, ignored);
  }

  absl::Status Create() {
    std::error_code error;
    if (std::filesystem::exists(path_, error))
      return absl::InvalidArgumentError(absl::StrCat(path_, " exists. Name a new folder with -o"));
    if (std::filesystem::create_directories(temporary_, error)) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("cannot make ", temporary_, ": ", error.message()));
  }
  absl::Status Commit() {
    std::error_code error;
    std::filesystem::rename(temporary_, path_, error);
    if (!error) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("cannot write ", path_, ": ", error.message()));
  }
  const std::string& temporary() const { return temporary_; }

 private:
  std::string path_, temporary_;
};

absl::StatusOr<std::vector<std::string>> TracesOf(const std::vector<std::string>& places) {
  std::vector<std::string> traces;
  for (const std::string& place : places) {
    const std::vector<std::string> inside = TracesOfFolder(place);
    inside.empty() ? traces.push_back(place) : (void)traces.insert(traces.end(), inside.begin(), inside.end());
  }
  if (!traces.empty()) return traces;
  GPUMEM_ASSIGN_OR_RETURN(const std::string newest, FindTrace(""));
  traces.push_back(newest);
  return traces;
}

}  // namespace

absl::StatusOr<bool> ExportParquet(const std::vector<std::string>& places, const std::string& folder,
                                   const SymbolFlags& symbols, Console* console) {
  NewFolder result(folder);
  GPUMEM_RETURN_IF_ERROR(result.Create());
  SessionRequest request;
  GPUMEM_ASSIGN_OR_RETURN(request.traces, TracesOf(places));
  GPUMEM_ASSIGN_OR_RETURN(request.symbols, symbols.Options());
  request.is_unsafe = true;  // no statement is anybody else's
  request.progress = [console](const std::string& what, uint64_t done, uint64_t all) {
    console->Progress(what, done, all);
  };
  const absl::StatusOr<std::unique_ptr<SqlSession>> session = SqlSession::Open(request);
  console->ProgressDone();
  if (!session.ok()) return session.status();
  for (const std::string& note : (*session)->notes()) console->Complain(note);
  // pyarrow finds no type for a partition that is only ever null, so an unknown rank is -1.
  for (const TableSchema* const table : AllTables()) {
    const std::string to = SqlQuoted(absl::StrCat(result.temporary(), "/", table->name));
    GPUMEM_ASSIGN_OR_RETURN(Rows rows, (*session)->Run(absl::StrCat(
                                           "COPY (SELECT * REPLACE (coalesce(rank, -1) AS rank) FROM ", table->name,
                                           ") TO ", to, " (FORMAT PARQUET, COMPRESSION ZSTD, PARTITION_BY (rank))")));
    while (rows.Next()) {
    }
    GPUMEM_RETURN_IF_ERROR(rows.status());
  }
  GPUMEM_RETURN_IF_ERROR(result.Commit());
  return (*session)->is_partial();
}

}  // namespace gpumem
