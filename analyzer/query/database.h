// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Database: one DuckDB database with one connection to it, closed in the right order. A Rows is what a statement
// yields, chunk by chunk, so that a result of any size takes bounded memory. Not thread-safe but for Interrupt.
//
//   GPUMEM_ASSIGN_OR_RETURN(const auto database, Database::Open("", {{"threads", "2"}}));   // "" = in memory
//   GPUMEM_RETURN_IF_ERROR(database->Execute("CREATE TABLE t (i BIGINT)"));
//   GPUMEM_ASSIGN_OR_RETURN(Rows rows, database->Run("SELECT * FROM t"));
//   while (rows.Next()) ...
//
// Errors have DuckDB's own words; InvalidArgument for statements.

#ifndef GPUMEM_ANALYZER_QUERY_DATABASE_H_
#define GPUMEM_ANALYZER_QUERY_DATABASE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "query/duckdb_api.h"

namespace gpumem {

class Rows {
 public:
  struct Column {
    std::string name;
    DuckHandle type = nullptr;  // logical type
    DuckType id = kDuckVarchar;
  };

  Rows(const DuckApi* duck, DuckResult result);
  Rows(Rows&& other) noexcept;
  Rows& operator=(Rows&&) = delete;
  ~Rows();

  const std::vector<Column>& columns() const { return columns_; }
  // Whether the statement returns rows: CREATE and the like do not.
  bool returns_rows() const { return returns_rows_; }
  // Goes to the next chunk: false at the end, or where the statement failed on the way (see status).
  bool Next();
  absl::Status status() const;
  uint64_t size() const { return size_; }  // rows of the chunk
  DuckHandle vector(size_t column) const;
  const DuckApi& duck() const { return *duck_; }

 private:
  const DuckApi* duck_;
  DuckResult result_;
  std::vector<Column> columns_;
  bool returns_rows_ = false;
  DuckHandle chunk_ = nullptr;
  uint64_t size_ = 0;
};

class Database {
 public:
  using Settings = std::vector<std::pair<std::string, std::string>>;

  // `path` "" = in memory. Not extensions, not even those that are installed.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path, const Settings& settings);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database();

  absl::Status Execute(const std::string& sql);
  // One statement. With `allowed`: InvalidArgument where DuckDB's parser finds it to be of another type.
  absl::StatusOr<Rows> Run(const std::string& sql, absl::Span<const DuckStatement> allowed = {});
  // What a statement is, without running it.
  absl::StatusOr<DuckStatement> TypeOf(const std::string& sql);
  // Ends what runs. From another thread or a signal handler's thread.
  void Interrupt() const { duck_->interrupt(connection_); }

  const DuckApi& duck() const { return *duck_; }
  DuckHandle connection() const { return connection_; }

 private:
  explicit Database(const DuckApi* duck) : duck_(duck) {}
  absl::StatusOr<DuckHandle> Prepare(const std::string& sql);

  const DuckApi* duck_;
  DuckHandle database_ = nullptr, connection_ = nullptr;
};

// 'it''s'
std::string SqlQuoted(const std::string& text);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_DATABASE_H_
