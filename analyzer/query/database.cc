// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/database.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "query/statements.h"

namespace gpumem {
namespace {

constexpr int kReturnsRows = 3;  // DUCKDB_RESULT_TYPE_QUERY_RESULT

// One line: DuckDB shows the place in the query below its message, with a caret that lines up on a terminal alone.
absl::Status SqlError(const char* message) {
  std::string text = message == nullptr || *message == '\0' ? "DuckDB failed without a reason" : message;
  text = text.substr(0, text.find("\n\nLINE "));
  text = absl::StrReplaceAll(text, {{"\n\n", ". "}, {"\n", " "}});
  if (absl::StrContains(text, "INTERRUPT")) return absl::CancelledError(text);
  return absl::InvalidArgumentError(text);
}

}  // namespace

std::string SqlQuoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "''"}}), "'");
}

Rows::Rows(const DuckApi* duck, DuckResult result) : duck_(duck), result_(result) {
  const uint64_t count = duck_->column_count(&result_);
  for (uint64_t i = 0; i < count; ++i) {
    Column column;
    column.name = duck_->column_name(&result_, i);
    column.type = duck_->column_logical_type(&result_, i);
    column.id = static_cast<DuckType>(duck_->get_type_id(column.type));
    columns_.push_back(std::move(column));
  }
  returns_rows_ = duck_->result_return_type(result_) == kReturnsRows;
}

Rows::Rows(Rows&& other) noexcept
    : duck_(other.duck_),
      result_(std::exchange(other.result_, {})),
      columns_(std::exchange(other.columns_, {})),
      returns_rows_(other.returns_rows_),
      chunk_(std::exchange(other.chunk_, nullptr)),
      size_(other.size_) {}

Rows::~Rows() {
  if (chunk_ != nullptr) duck_->destroy_data_chunk(&chunk_);
  for (Column& column : columns_) duck_->destroy_logical_type(&column.type);
  if (result_.internal != nullptr) duck_->destroy_result(&result_);
}

bool Rows::Next() {
  if (chunk_ != nullptr) duck_->destroy_data_chunk(&chunk_);
  chunk_ = duck_->fetch_chunk(result_);
  size_ = chunk_ == nullptr ? 0 : duck_->data_chunk_get_size(chunk_);
  return size_ > 0;
}

absl::Status Rows::status() const {
  DuckResult result = result_;
  const char* const error = duck_->result_error(&result);
  if (error == nullptr || *error == '\0') return absl::OkStatus();
  return SqlError(error);
}

DuckHandle Rows::vector(size_t column) const { return duck_->data_chunk_get_vector(chunk_, column); }

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path, const Settings& settings) {
  GPUMEM_ASSIGN_OR_RETURN(const DuckApi* const duck, LoadDuckDb());
  auto database = std::unique_ptr<Database>(new Database(duck));
  DuckHandle config = nullptr;
  if (duck->create_config(&config) != 0) return absl::InternalError("DuckDB gives no configuration");
  std::string refused;
  Settings all = settings;
  const auto is_place = [](const auto& setting) { return setting.first == "temp_directory"; };
  if (std::none_of(all.begin(), all.end(), is_place)) all.emplace_back("temp_directory", "");  // not ./.tmp
  all.emplace_back("autoinstall_known_extensions", "false");
  all.emplace_back("autoload_known_extensions", "false");
  for (const auto& [name, value] : all) {
    if (duck->set_config(config, name.c_str(), value.c_str()) != 0) absl::StrAppend(&refused, " ", name);
  }
  char* error = nullptr;
  const DuckState state = duck->open_ext(path.empty() ? nullptr : path.c_str(), &database->database_, config, &error);
  duck->destroy_config(&config);
  const std::string message = error == nullptr ? "" : error;
  if (error != nullptr) duck->free(error);
  if (state != 0) return absl::UnavailableError(message);
  if (!refused.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("this DuckDB (", duck->library_version(), ") has no setting",
                                                      refused, ": another version is needed"));
  }
  if (duck->connect(database->database_, &database->connection_) != 0)
    return absl::InternalError("DuckDB gives no connection");
  return database;
}

Database::~Database() {
  if (connection_ != nullptr) duck_->disconnect(&connection_);
  if (database_ != nullptr) duck_->close(&database_);
}

absl::Status Database::Execute(const std::string& sql) {
  DuckResult result;
  const DuckState state = duck_->query(connection_, sql.c_str(), &result);
  const absl::Status status = state == 0 ? absl::OkStatus() : SqlError(duck_->result_error(&result));
  duck_->destroy_result(&result);
  return status;
}

absl::StatusOr<DuckHandle> Database::Prepare(const std::string& sql) {
  DuckHandle statements = nullptr, prepared = nullptr;
  const uint64_t count = duck_->extract_statements(connection_, sql.c_str(), &statements);
  absl::Status status;
  if (count == 0) {
    status = SqlError(duck_->extract_statements_error(statements));
  } else if (count > 1) {
    status = absl::InvalidArgumentError("more than one statement at a time");
  } else if (duck_->prepare_extracted_statement(connection_, statements, 0, &prepared) != 0) {
    status = SqlError(duck_->prepare_error(prepared));
  }
  if (statements != nullptr) duck_->destroy_extracted(&statements);
  if (!status.ok() && prepared != nullptr) duck_->destroy_prepare(&prepared);
  if (!status.ok()) return status;
  return prepared;
}

absl::StatusOr<DuckStatement> Database::TypeOf(const std::string& sql) {
  GPUMEM_ASSIGN_OR_RETURN(DuckHandle prepared, Prepare(sql));
  const auto type = static_cast<DuckStatement>(duck_->prepared_statement_type(prepared));
  duck_->destroy_prepare(&prepared);
  return type;
}

absl::StatusOr<Rows> Database::Run(const std::string& sql, absl::Span<const DuckStatement> allowed) {
  GPUMEM_ASSIGN_OR_RETURN(DuckHandle prepared, Prepare(sql));
  const int type = duck_->prepared_statement_type(prepared);
  DuckHandle pending = nullptr;
  absl::Status status;
  DuckResult result;
  if (!allowed.empty() && std::find(allowed.begin(), allowed.end(), type) == allowed.end()) {
    status = Refused("this statement");
  } else if (duck_->pending_prepared_streaming(prepared, &pending) != 0) {
    status = SqlError(duck_->pending_error(pending));
  } else if (duck_->execute_pending(pending, &result) != 0) {
    status = SqlError(duck_->result_error(&result));
    duck_->destroy_result(&result);
  }
  if (pending != nullptr) duck_->destroy_pending(&pending);
  duck_->destroy_prepare(&prepared);
  if (!status.ok()) return status;
  return Rows(duck_, result);
}

}  // namespace gpumem
