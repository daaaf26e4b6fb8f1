// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SqlSession: traces, ready to be asked in SQL. Indexes that are missing are built first, without their events where
// nothing will ask for any. Then the door is shut, unless
// the session is unsafe: indexes are attached for reading alone and by names that are gone afterwards, no path is
// allowed, settings are locked, and what DuckDB's parser takes a statement for must be among the few types that read or
// make tables in memory, also below EXPLAIN, and its plan calls no function but those that read. Parquet is written by
// another database than the one that answers. Not thread-safe but for Interrupt.
//
//   SessionRequest request;
//   request.traces = {"r0.gmtrace", "r1.gmtrace"};
//   GPUMEM_ASSIGN_OR_RETURN(const auto session, SqlSession::Open(request));
//   GPUMEM_ASSIGN_OR_RETURN(Rows rows, session->Run("SELECT count(*) FROM events"));

#ifndef GPUMEM_ANALYZER_QUERY_SESSION_H_
#define GPUMEM_ANALYZER_QUERY_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ledger/load/load_trace.h"
#include "query/database.h"
#include "query/spill_folder.h"

namespace gpumem {

struct SessionRequest {
  std::vector<std::string> traces;  // files
  std::string sql;                  // all statements that will be asked; "" = anything
  std::string index_folder;         // "" = the default (index_file.h)
  std::string output;               // the one file that COPY may write; "" = none
  std::string memory = "2GB";       // most that DuckDB takes
  bool is_unsafe = false;
  SymbolizerOptions symbols;
  LoadProgress progress;
};

class SqlSession {
 public:
  // Fails where no trace can be read; one of several that cannot is left out, which notes() say.
  static absl::StatusOr<std::unique_ptr<SqlSession>> Open(const SessionRequest& request);
  SqlSession(const SqlSession&) = delete;
  SqlSession& operator=(const SqlSession&) = delete;

  // One statement of those that are allowed, or the session is unsafe.
  absl::StatusOr<Rows> Run(const std::string& statement);
  // Writes what a SELECT yields to `output`.
  absl::Status CopyToParquet(const std::string& statement);
  void Interrupt() const { database_->Interrupt(); }

  // What answers do not rest on: damage, losses, a trace that could not be read; a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }
  // Answers are of a part: damage, or a trace left out.
  bool is_partial() const { return is_partial_; }
  uint64_t indexes_built() const { return indexes_built_; }

 private:
  SqlSession() = default;
  struct Index {
    std::string lives, events;  // files; "" = not asked for
  };
  absl::StatusOr<Index> IndexOf(const std::string& trace, const SessionRequest& request);
  // A database in memory with these attached.
  absl::StatusOr<std::unique_ptr<Database>> Attached(const std::vector<Index>& indexes,
                                                     const SessionRequest& request) const;
  absl::Status TakeNotes();
  absl::Status CheckPlan(const std::string& statement);

  std::unique_ptr<SpillFolder> spill_;  // outlives what writes there
  std::unique_ptr<Database> database_, writer_;
  std::string output_;
  bool is_unsafe_ = false, is_partial_ = false;
  std::vector<std::string> notes_;
  uint64_t indexes_built_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_SESSION_H_
