// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/session.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_output.h"
#include "base/format.h"
#include "base/output_file.h"
#include "base/status_macros.h"
#include "ledger/saved/index_file.h"
#include "query/build_index.h"
#include "query/cell_text.h"
#include "query/statements.h"
#include "query/views.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

// What reads, and what makes tables and views in memory, which go with the program.
constexpr DuckStatement kAllowedTypes[] = {kDuckSelect, kDuckInsert, kDuckUpdate, kDuckDelete,
                                           kDuckCreate, kDuckAlter,  kDuckDrop};

bool IsAllowed(DuckStatement type) {
  return std::find(std::begin(kAllowedTypes), std::end(kAllowedTypes), type) != std::end(kAllowedTypes);
}

// Another program may have left something under the name; an index that DuckDB cannot open is built anew.
bool CanBeOpened(const std::string& path) { return Database::Open(path, {{"access_mode", "READ_ONLY"}}).ok(); }

// No index of ours has a write-ahead log: DuckDB would take what is in it for the tables' rows.
bool HadLog(const std::string& path) {
  const std::string log = absl::StrCat(path, ".wal");
  struct stat info {};
  if (lstat(log.c_str(), &info) != 0) return false;
  RemovePlainFile(log);
  return true;
}

// By a name of its own, in a folder that only this process has to do with, and that goes at once: DuckDB looks for a
// log beside the name, and allows the names of what is attached to be read and written. A symbolic link would not do,
// since it is resolved.
absl::Status AttachForReading(const std::string& index, const std::string& schema, Database* database) {
  std::optional<HalfWritten> folder(HalfWritten::NameFor(index));
  if (!folder->MakeFolder().ok()) {  // not beside the index: among temporary files
    GPUMEM_ASSIGN_OR_RETURN(std::string temporary, NewTemporaryFolder("sql"));
    folder.emplace(std::move(temporary));
  }
  const std::string name = folder->path() + "/index.duckdb";
  std::error_code error;
  if (link(index.c_str(), name.c_str()) != 0 && !fs::copy_file(index, name, error))
    return absl::UnavailableError(absl::StrCat("cannot make ", name, ": ", error.message()));
  return database->Execute(absl::StrCat("ATTACH ", SqlQuoted(name), " AS ", schema, " (READ_ONLY)"));
}

absl::Status LockDatabase(const std::string& output, Database* database) {
  if (!output.empty())
    GPUMEM_RETURN_IF_ERROR(database->Execute(absl::StrCat("SET allowed_paths = [", SqlQuoted(output), "]")));
  GPUMEM_RETURN_IF_ERROR(database->Execute("SET enable_external_access = false"));
  return database->Execute("SET lock_configuration = true");
}

}  // namespace

absl::StatusOr<SqlSession::Index> SqlSession::IndexOf(const std::string& trace, const SessionRequest& request) {
  GPUMEM_ASSIGN_OR_RETURN(const DuckApi* const duck, LoadDuckDb());
  std::unique_ptr<LoadedTrace> loaded;  // once something is missing
  const auto find = [&](IndexPart part, const char* extension) -> absl::StatusOr<std::string> {
    GPUMEM_ASSIGN_OR_RETURN(const IndexFile file,
                            IndexFileOf(trace, request.index_folder, duck->library_version(), extension));
    if (!HadLog(file.path) && file.exists() && CanBeOpened(file.path)) {
      TouchIndex(file.path);
      return file.path;
    }
    if (loaded == nullptr) {
      LoadRequest load;
      load.place = trace;
      load.symbols = request.symbols;
      load.progress = request.progress;
      GPUMEM_ASSIGN_OR_RETURN(loaded, LoadTrace(load));
      for (const std::string& note : loaded->symbol_notes()) notes_.push_back(note);
      ++indexes_built_;
    }
    GPUMEM_RETURN_IF_ERROR(BuildIndex(part, file, loaded.get(), request.progress));
    return file.path;
  };
  Index index;
  GPUMEM_ASSIGN_OR_RETURN(index.lives, find(IndexPart::kLives, "duckdb"));
  if (!request.sql.empty() && !MayReadEvents(request.sql)) return index;
  GPUMEM_ASSIGN_OR_RETURN(index.events, find(IndexPart::kEvents, "events"));
  return index;
}

absl::StatusOr<std::unique_ptr<Database>> SqlSession::Attached(const std::vector<Index>& indexes,
                                                               const SessionRequest& request) const {
  GPUMEM_ASSIGN_OR_RETURN(auto database, Database::Open("", {{"memory_limit", request.memory},
                                                             {"temp_directory", spill_->path()},
                                                             {"max_temp_directory_size", spill_->limit()}}));
  std::vector<AttachedTrace> traces;
  for (size_t i = 0; i < indexes.size(); ++i) {
    const std::string schema = absl::StrCat("t", i), events = indexes[i].events.empty() ? "" : absl::StrCat("e", i);
    GPUMEM_RETURN_IF_ERROR(AttachForReading(indexes[i].lives, schema, database.get()));
    if (!events.empty()) GPUMEM_RETURN_IF_ERROR(AttachForReading(indexes[i].events, events, database.get()));
    GPUMEM_ASSIGN_OR_RETURN(
        Rows rows, database->Run(absl::StrCat("SELECT process_rank, hostname, role FROM ", schema, ".processes")));
    if (!rows.Next()) return absl::DataLossError(absl::StrCat(indexes[i].lives, " is not an index. Remove it."));
    const Cell rank = CellAt(rows, 0, 0), host = CellAt(rows, 1, 0), role = CellAt(rows, 2, 0);
    traces.push_back({schema, events, rank.is_null ? -1 : static_cast<int>(rank.number), host.is_null ? "" : host.text,
                      role.is_null ? "" : role.text});
  }
  for (const std::string& sql : ViewStatements(traces)) GPUMEM_RETURN_IF_ERROR(database->Execute(sql));
  return database;
}

absl::Status SqlSession::TakeNotes() {
  GPUMEM_ASSIGN_OR_RETURN(Rows rows, database_->Run("SELECT path, damage, lost_events, complete FROM processes"));
  while (rows.Next()) {
    for (uint64_t i = 0; i < rows.size(); ++i) {
      const std::string path = CellAt(rows, 0, i).text;
      const Cell damage = CellAt(rows, 1, i), lost = CellAt(rows, 2, i);
      if (!damage.is_null) {
        is_partial_ = true;
        notes_.push_back(absl::StrCat(path, " is damaged, and answers are of what could be read: ", damage.text));
      }
      if (lost.number > 0) {
        notes_.push_back(absl::StrCat(path, " lacks ", FormatCount(static_cast<uint64_t>(lost.number)),
                                      " events that happened, so sums may be wrong: SELECT * FROM losses"));
      }
      if (CellAt(rows, 3, i).text == "false" && damage.is_null) {
        notes_.push_back(
            absl::StrCat(path, " has no end: the process was killed or still runs. Answers are of what was recorded."));
      }
    }
  }
  return rows.status();
}

absl::StatusOr<std::unique_ptr<SqlSession>> SqlSession::Open(const SessionRequest& request) {
  auto session = std::unique_ptr<SqlSession>(new SqlSession());
  std::vector<Index> indexes;
  absl::Status failed;
  for (const std::string& trace : request.traces) {
    absl::StatusOr<Index> index = session->IndexOf(trace, request);
    if (index.ok()) {
      indexes.push_back(*std::move(index));
      continue;
    }
    failed = index.status();
    if (request.traces.size() == 1) return failed;
    session->is_partial_ = true;
    session->notes_.push_back(absl::StrCat(trace, " is left out: ", failed.message()));
  }
  if (indexes.empty()) return failed.ok() ? absl::NotFoundError("no trace was named") : failed;
  session->spill_ = std::make_unique<SpillFolder>(indexes.front().lives.substr(0, indexes.front().lives.rfind('/')));
  GPUMEM_ASSIGN_OR_RETURN(session->database_, session->Attached(indexes, request));
  session->is_unsafe_ = request.is_unsafe;
  session->output_ = request.output;
  GPUMEM_RETURN_IF_ERROR(session->TakeNotes());
  if (request.is_unsafe) return session;
  GPUMEM_RETURN_IF_ERROR(LockDatabase("", session->database_.get()));
  if (request.output.empty()) return session;
  GPUMEM_ASSIGN_OR_RETURN(session->writer_, session->Attached(indexes, request));
  GPUMEM_RETURN_IF_ERROR(LockDatabase(request.output, session->writer_.get()));
  return session;
}

// What a statement does is in its plan, by whatever way it says so: views, macros and query() are resolved there.
absl::Status SqlSession::CheckPlan(const std::string& statement) {
  GPUMEM_ASSIGN_OR_RETURN(Rows rows, database_->Run(absl::StrCat("EXPLAIN (FORMAT json) ", statement), {kDuckExplain}));
  while (rows.Next()) {
    for (uint64_t i = 0; i < rows.size(); ++i) {
      for (const std::string& function : FunctionsInPlan(CellAt(rows, 1, i).text)) {
        if (!IsReadingFunction(function)) return Refused(absl::StrCat("the function ", function));
      }
    }
  }
  return rows.status();
}

absl::StatusOr<Rows> SqlSession::Run(const std::string& statement) {
  if (is_unsafe_) return database_->Run(statement);
  GPUMEM_RETURN_IF_ERROR(CheckAllowed(statement));
  const std::optional<Explained> explained = SplitExplain(statement);
  const std::string& asked = explained ? explained->statement : statement;
  GPUMEM_ASSIGN_OR_RETURN(const DuckStatement type, database_->TypeOf(asked));
  if (explained && type != kDuckSelect) return Refused("EXPLAIN of anything but a SELECT");
  if (!IsAllowed(type)) return Refused("a statement of this type");
  GPUMEM_RETURN_IF_ERROR(CheckPlan(asked));
  if (!explained) return database_->Run(statement, kAllowedTypes);
  return database_->Run(explained->prefix + explained->statement, {kDuckExplain});
}

absl::Status SqlSession::CopyToParquet(const std::string& statement) {
  Database* const writer = is_unsafe_ ? database_.get() : writer_.get();
  if (!is_unsafe_) {
    GPUMEM_RETURN_IF_ERROR(CheckAllowed(statement));
    GPUMEM_ASSIGN_OR_RETURN(const DuckStatement type, database_->TypeOf(statement));
    if (type != kDuckSelect) return Refused("-o with anything but a SELECT");
    GPUMEM_RETURN_IF_ERROR(CheckPlan(statement));
  }
  return writer->Execute(absl::StrCat("COPY (", statement, "\n) TO ", SqlQuoted(output_), " (FORMAT PARQUET)"));
}

}  // namespace gpumem
