// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// TableWriter: makes a table of the index and fills it, row by row, in the columns' order. Rows go to DuckDB in chunks,
// so memory stays bounded. Dictionary: the texts of an ENUM column, each once. Not thread-safe; the database must
// outlive it. The first error is kept for Close.
//
//   Dictionary kinds;  const uint32_t alloc = kinds.Add("alloc");
//   TableWriter writer(database, EventsTable(), {{"kind", &kinds}});
//   writer.Int(12).Enum(alloc).Null()...;  writer.EndRow();
//   GPUMEM_RETURN_IF_ERROR(writer.Close());

#ifndef GPUMEM_ANALYZER_QUERY_TABLE_WRITER_H_
#define GPUMEM_ANALYZER_QUERY_TABLE_WRITER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "query/database.h"
#include "query/schema.h"

namespace gpumem {

class Dictionary {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;  // NULL

  // Its number. Bytes that are no UTF-8 are replaced; "" is NULL.
  uint32_t Add(absl::string_view text);
  uint32_t Find(absl::string_view text) const;  // kNone: it was not added
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::vector<std::string> texts_;
  absl::flat_hash_map<std::string, uint32_t> numbers_;
};

// Text that DuckDB takes: UTF-8, without NUL.
std::string CleanText(absl::string_view text);

class TableWriter {
 public:
  using Dictionaries = std::map<std::string, const Dictionary*>;  // by column; must outlive the writer

  TableWriter(Database* database, const TableSchema& schema, const Dictionaries& dictionaries = {});
  TableWriter(const TableWriter&) = delete;
  TableWriter& operator=(const TableWriter&) = delete;
  ~TableWriter();

  // The next column of the row. Of an integer column of either width.
  TableWriter& Int(int64_t value);
  TableWriter& UInt(uint64_t value) { return Int(static_cast<int64_t>(value)); }
  TableWriter& Bool(bool value);
  TableWriter& Text(absl::string_view text);
  TableWriter& TextOrNull(absl::string_view text) { return text.empty() ? Null() : Text(text); }
  TableWriter& Enum(uint32_t number);  // kNone: NULL
  TableWriter& Null();
  TableWriter& IntOrNull(uint64_t value, bool is_known) { return is_known ? UInt(value) : Null(); }
  TableWriter& IntOrNull(uint64_t value) { return IntOrNull(value, value != 0); }
  void EndRow();

  absl::Status Close();

 private:
  struct Column {
    ColumnType type;
    int storage;  // DuckType of the vector's data
    DuckHandle logical = nullptr;
    DuckHandle vector = nullptr;
    void* data = nullptr;
    bool has_validity = false;
  };

  void Create(const TableSchema& schema, const Dictionaries& dictionaries);
  void Prepare();
  void Flush();

  Database* database_;
  const DuckApi& duck_;
  DuckHandle appender_ = nullptr, chunk_ = nullptr;
  std::vector<Column> columns_;
  size_t column_ = 0;
  uint64_t row_ = 0, capacity_ = 0;
  absl::Status status_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_TABLE_WRITER_H_
