// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/session.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "query/build_index.h"
#include "query/cell_text.h"
#include "query/statements.h"
#include "query/views.h"
#include "saved/index_file.h"

namespace gpumem {
namespace {

// Another program may have left something under the name; an index that DuckDB cannot open is built anew.
bool CanBeOpened(const std::string& path) { return Database::Open(path, {{"access_mode", "READ_ONLY"}}).ok(); }

}  // namespace

absl::StatusOr<std::string> SqlSession::Index(const std::string& trace, const SessionRequest& request) {
  GPUMEM_ASSIGN_OR_RETURN(const DuckApi* const duck, LoadDuckDb());
  GPUMEM_ASSIGN_OR_RETURN(const IndexFile file, IndexFileOf(trace, request.index_folder, duck->library_version()));
  if (file.exists() && CanBeOpened(file.path)) {
    TouchIndex(file.path);
    return file.path;
  }
  LoadRequest load;
  load.place = trace;
  load.symbols = request.symbols;
  load.progress = request.progress;
  GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(load));
  for (const std::string& note : loaded->symbol_notes()) notes_.push_back(note);
  GPUMEM_RETURN_IF_ERROR(BuildIndex(file, loaded.get(), request.progress));
  ++indexes_built_;
  return file.path;
}

absl::Status SqlSession::Attach(const std::vector<std::string>& indexes) {
  std::vector<AttachedTrace> traces;
  for (size_t i = 0; i < indexes.size(); ++i) {
    const std::string schema = absl::StrCat("t", i);
    GPUMEM_RETURN_IF_ERROR(
        database_->Execute(absl::StrCat("ATTACH ", SqlQuoted(indexes[i]), " AS ", schema, " (READ_ONLY)")));
    GPUMEM_ASSIGN_OR_RETURN(
        Rows rows, database_->Run(absl::StrCat("SELECT process_rank, hostname, role FROM ", schema, ".processes")));
    if (!rows.Next()) return absl::DataLossError(absl::StrCat(indexes[i], " is no index. Remove it."));
    const Cell rank = CellAt(rows, 0, 0), host = CellAt(rows, 1, 0), role = CellAt(rows, 2, 0);
    traces.push_back({schema, rank.is_null ? -1 : static_cast<int>(rank.number), host.is_null ? "" : host.text,
                      role.is_null ? "" : role.text});
  }
  for (const std::string& sql : ViewStatements(traces)) GPUMEM_RETURN_IF_ERROR(database_->Execute(sql));
  return absl::OkStatus();
}

absl::Status SqlSession::Lock(const SessionRequest& request) {
  if (request.is_unsafe) return absl::OkStatus();
  if (!request.output.empty()) {
    GPUMEM_RETURN_IF_ERROR(database_->Execute(absl::StrCat("SET allowed_paths = [", SqlQuoted(request.output), "]")));
  }
  GPUMEM_RETURN_IF_ERROR(database_->Execute("SET enable_external_access = false"));
  return database_->Execute("SET lock_configuration = true");
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
  std::vector<std::string> indexes;
  absl::Status failed;
  for (const std::string& trace : request.traces) {
    absl::StatusOr<std::string> index = session->Index(trace, request);
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
  GPUMEM_ASSIGN_OR_RETURN(session->database_, Database::Open("", {{"memory_limit", request.memory}}));
  session->is_unsafe_ = request.is_unsafe;
  session->output_ = request.output;
  GPUMEM_RETURN_IF_ERROR(session->Attach(indexes));
  GPUMEM_RETURN_IF_ERROR(session->TakeNotes());
  GPUMEM_RETURN_IF_ERROR(session->Lock(request));
  return session;
}

absl::StatusOr<Rows> SqlSession::Run(const std::string& statement) {
  if (!is_unsafe_) GPUMEM_RETURN_IF_ERROR(CheckAllowed(statement));
  return database_->Run(statement);
}

absl::Status SqlSession::CopyToParquet(const std::string& statement) {
  if (!is_unsafe_) GPUMEM_RETURN_IF_ERROR(CheckAllowed(statement));
  return database_->Execute(absl::StrCat("COPY (", statement, "\n) TO ", SqlQuoted(output_), " (FORMAT PARQUET)"));
}

}  // namespace gpumem
