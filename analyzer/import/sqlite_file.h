// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SqliteFile: tables of a SQLite database of somebody else, read and never written. What the file could make SQLite do
// is shut off: no triggers, no views, no virtual tables, no functions in its schema, no journal beside it is looked at.
// Not thread-safe. Errors are DataLoss, in SQLite's words.
//
//   GPUMEM_ASSIGN_OR_RETURN(SqliteFile file, SqliteFile::Open("report1.sqlite"));
//   GPUMEM_RETURN_IF_ERROR(file.Read("StringIds", {"id", "value"}, [&](const SqliteRow& row) {
//     strings[row.Number(0)] = row.Text(1);
//     return absl::OkStatus();
//   }));

#ifndef GPUMEM_ANALYZER_IMPORT_SQLITE_FILE_H_
#define GPUMEM_ANALYZER_IMPORT_SQLITE_FILE_H_

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// One row, valid while it is shown. A column that the table lacks is null.
class SqliteRow {
 public:
  explicit SqliteRow(sqlite3_stmt* statement) : statement_(statement) {}
  bool IsNull(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  int64_t Number(int column) const { return sqlite3_column_int64(statement_, column); }
  absl::string_view Text(int column) const {
    const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return text == nullptr ? absl::string_view()
                           : absl::string_view(text, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
  }

 private:
  sqlite3_stmt* statement_;
};

class SqliteFile {
 public:
  static absl::StatusOr<SqliteFile> Open(const std::string& path);

  bool Has(absl::string_view table) const;
  // Shows each row of a table with these columns, in the file's order; none where there is no such table. Stops where
  // `take` fails.
  absl::Status Read(absl::string_view table, const std::vector<absl::string_view>& columns,
                    const std::function<absl::Status(const SqliteRow&)>& take) const;

 private:
  explicit SqliteFile(sqlite3* database) : database_(database, sqlite3_close) {}
  absl::Status Error() const;
  absl::StatusOr<std::vector<std::string>> ColumnsOf(absl::string_view table) const;

  std::unique_ptr<sqlite3, int (*)(sqlite3*)> database_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_SQLITE_FILE_H_
