// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/sqlite_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace gpumem {
namespace {

constexpr int kLongestValue = 16 << 20;  // bytes

struct Finalizer {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalizer>;

Statement Prepare(sqlite3* database, const std::string& text) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(database, text.c_str(), static_cast<int>(text.size()), &statement, nullptr);
  return Statement(statement);
}

// As in a URI: a path may hold what ends one.
std::string UriOf(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '/' || c == '.' || c == '-' || c == '_') {
      uri.push_back(c);
    } else {
      absl::StrAppendFormat(&uri, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return uri + "?immutable=1";  // no lock, no journal: the file is what it is
}

}  // namespace

absl::StatusOr<SqliteFile> SqliteFile::Open(const std::string& path) {
  sqlite3* database = nullptr;
  constexpr int kFlags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
  const int opened = sqlite3_open_v2(UriOf(path).c_str(), &database, kFlags, nullptr);
  SqliteFile file(database);
  if (opened != SQLITE_OK) return file.Error();
  for (const auto& [option, value] :
       {std::pair{SQLITE_DBCONFIG_DEFENSIVE, 1}, std::pair{SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        std::pair{SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}, std::pair{SQLITE_DBCONFIG_ENABLE_VIEW, 0}})
    sqlite3_db_config(database, option, value, nullptr);
  sqlite3_limit(database, SQLITE_LIMIT_LENGTH, kLongestValue);
  if (const Statement check = Prepare(database, "PRAGMA cell_size_check=ON"); check != nullptr)
    sqlite3_step(check.get());
  const Statement first = Prepare(database, "SELECT count(*) FROM sqlite_master");
  if (first == nullptr || sqlite3_step(first.get()) != SQLITE_ROW) return file.Error();
  return file;
}

absl::Status SqliteFile::Error() const {
  return absl::DataLossError(absl::StrCat("is an SQLite database that cannot be read: ",
                                          database_ == nullptr ? "no memory" : sqlite3_errmsg(database_.get()),
                                          ". Export the report anew"));
}

bool SqliteFile::Has(absl::string_view table) const {
  const Statement found = Prepare(
      database_.get(), "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1 AND sql LIKE 'CREATE TABLE%'");
  if (found == nullptr) return false;
  sqlite3_bind_text(found.get(), 1, table.data(), static_cast<int>(table.size()), SQLITE_TRANSIENT);
  return sqlite3_step(found.get()) == SQLITE_ROW;
}

absl::StatusOr<std::vector<std::string>> SqliteFile::ColumnsOf(absl::string_view table) const {
  std::vector<std::string> columns;
  const Statement statement = Prepare(database_.get(), absl::StrCat("PRAGMA table_info(\"", table, "\")"));
  if (statement == nullptr) return Error();
  int step = SQLITE_ROW;
  while ((step = sqlite3_step(statement.get())) == SQLITE_ROW) columns.emplace_back(SqliteRow(statement.get()).Text(1));
  if (step != SQLITE_DONE) return Error();
  return columns;
}

absl::Status SqliteFile::Read(absl::string_view table, const std::vector<absl::string_view>& columns,
                              const std::function<absl::Status(const SqliteRow&)>& take) const {
  if (!Has(table)) return absl::OkStatus();
  GPUMEM_ASSIGN_OR_RETURN(const std::vector<std::string> there, ColumnsOf(table));
  std::vector<std::string> asked;
  for (const absl::string_view column : columns) {
    const bool has = std::find(there.begin(), there.end(), column) != there.end();
    asked.push_back(has ? absl::StrCat("\"", column, "\"") : "NULL");
  }
  const Statement statement =
      Prepare(database_.get(), absl::StrCat("SELECT ", absl::StrJoin(asked, ", "), " FROM \"", table, "\""));
  if (statement == nullptr) return Error();
  int step = SQLITE_ROW;
  while ((step = sqlite3_step(statement.get())) == SQLITE_ROW) GPUMEM_RETURN_IF_ERROR(take(SqliteRow(statement.get())));
  return step == SQLITE_DONE ? absl::OkStatus() : Error();
}

}  // namespace gpumem
