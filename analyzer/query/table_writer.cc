// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/table_writer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"

namespace gpumem {
namespace {

DuckType StorageOf(ColumnType type) {
  switch (type) {
    case ColumnType::kBoolean:
      return kDuckBoolean;
    case ColumnType::kInteger:
      return kDuckInteger;
    case ColumnType::kBigInt:
      return kDuckBigInt;
    case ColumnType::kUBigInt:
      return kDuckUBigInt;
    default:
      return kDuckVarchar;
  }
}

// An ENUM has one text at least.
std::vector<std::string> TextsOf(const Dictionary& dictionary) {
  return dictionary.texts().empty() ? std::vector<std::string>{"(none)"} : dictionary.texts();
}

std::string EnumType(const std::vector<std::string>& texts) {
  std::string type = "ENUM(";
  for (size_t i = 0; i < texts.size(); ++i) absl::StrAppend(&type, i == 0 ? "" : ", ", SqlQuoted(texts[i]));
  return type + ")";
}

}  // namespace

std::string CleanText(absl::string_view text) {
  const bool is_plain = std::all_of(text.begin(), text.end(), [](char c) { return c > 0; });
  if (is_plain) return std::string(text);
  std::string clean;
  for (absl::string_view rest = text; !rest.empty();) {
    const DecodedChar c = DecodeUtf8(rest);
    AppendUtf8(c.valid && c.value != 0 ? c.value : U'\uFFFD', &clean);
    rest.remove_prefix(c.length);
  }
  return clean;
}

uint32_t Dictionary::Add(absl::string_view text) {
  if (text.empty()) return kNone;
  const auto [it, is_new] = numbers_.try_emplace(CleanText(text), static_cast<uint32_t>(texts_.size()));
  if (is_new) texts_.push_back(it->first);
  return it->second;
}

uint32_t Dictionary::Find(absl::string_view text) const {
  const auto found = numbers_.find(CleanText(text));
  return found == numbers_.end() ? kNone : found->second;
}

TableWriter::TableWriter(Database* database, const TableSchema& schema, const Dictionaries& dictionaries)
    : database_(database), duck_(database->duck()) {
  Create(schema, dictionaries);
  if (!status_.ok()) return;
  if (duck_.appender_create_ext(database->connection(), nullptr, nullptr, schema.name, &appender_) != 0) {
    status_ = absl::InternalError(absl::StrCat("table ", schema.name, " cannot be filled"));
    return;
  }
  std::vector<DuckHandle> types;
  for (const Column& column : columns_) types.push_back(column.logical);
  chunk_ = duck_.create_data_chunk(types.data(), types.size());
  capacity_ = duck_.vector_size();
  Prepare();
}

void TableWriter::Create(const TableSchema& schema, const Dictionaries& dictionaries) {
  std::string sql = absl::StrCat("CREATE TABLE \"", schema.name, "\" (");
  for (const TableColumn& declared : schema.columns) {
    Column column{declared.type, StorageOf(declared.type)};
    std::string type = TypeName(declared.type);
    if (const auto found = dictionaries.find(declared.name); declared.type == ColumnType::kEnum) {
      const std::vector<std::string> texts = TextsOf(found == dictionaries.end() ? Dictionary() : *found->second);
      std::vector<const char*> pointers;
      for (const std::string& text : texts) pointers.push_back(text.c_str());
      column.logical = duck_.create_enum_type(pointers.data(), pointers.size());
      column.storage = duck_.enum_internal_type(column.logical);
      type = EnumType(texts);
    } else {
      column.logical = duck_.create_logical_type(column.storage);
    }
    absl::StrAppend(&sql, columns_.empty() ? "\"" : ", \"", declared.name, "\" ", type);
    columns_.push_back(column);
  }
  status_ = database_->Execute(sql + ")");
}

TableWriter::~TableWriter() {
  if (appender_ != nullptr) duck_.appender_destroy(&appender_);
  if (chunk_ != nullptr) duck_.destroy_data_chunk(&chunk_);
  for (Column& column : columns_) {
    if (column.logical != nullptr) duck_.destroy_logical_type(&column.logical);
  }
}

void TableWriter::Prepare() {
  for (size_t i = 0; i < columns_.size(); ++i) {
    columns_[i].vector = duck_.data_chunk_get_vector(chunk_, i);
    columns_[i].data = duck_.vector_get_data(columns_[i].vector);
    columns_[i].has_validity = false;
  }
  row_ = 0;
}

TableWriter& TableWriter::Int(int64_t value) {
  if (!status_.ok()) return *this;
  const Column& column = columns_[column_++];
  if (column.storage == kDuckInteger) {
    static_cast<int32_t*>(column.data)[row_] = static_cast<int32_t>(value);
  } else {
    static_cast<int64_t*>(column.data)[row_] = value;
  }
  return *this;
}

TableWriter& TableWriter::Bool(bool value) {
  if (status_.ok()) static_cast<bool*>(columns_[column_++].data)[row_] = value;
  return *this;
}

TableWriter& TableWriter::Text(absl::string_view text) {
  if (!status_.ok()) return *this;
  const std::string clean = CleanText(text);
  duck_.vector_assign_string_element_len(columns_[column_++].vector, row_, clean.data(), clean.size());
  return *this;
}

TableWriter& TableWriter::Enum(uint32_t number) {
  if (number == Dictionary::kNone || !status_.ok()) return Null();
  const Column& column = columns_[column_++];
  if (column.storage == kDuckUTinyInt) {
    static_cast<uint8_t*>(column.data)[row_] = static_cast<uint8_t>(number);
  } else if (column.storage == kDuckUSmallInt) {
    static_cast<uint16_t*>(column.data)[row_] = static_cast<uint16_t>(number);
  } else {
    static_cast<uint32_t*>(column.data)[row_] = number;
  }
  return *this;
}

TableWriter& TableWriter::Null() {
  if (!status_.ok()) return *this;
  Column& column = columns_[column_++];
  if (!column.has_validity) {
    duck_.vector_ensure_validity_writable(column.vector);
    column.has_validity = true;
  }
  duck_.vector_get_validity(column.vector)[row_ / 64] &= ~(uint64_t{1} << (row_ % 64));
  return *this;
}

void TableWriter::EndRow() {
  if (!status_.ok()) return;
  if (column_ != columns_.size()) {
    status_ = absl::InternalError(absl::StrCat("a row with ", column_, " of ", columns_.size(), " columns"));
    return;
  }
  column_ = 0;
  if (++row_ == capacity_) Flush();
}

void TableWriter::Flush() {
  if (row_ == 0 || !status_.ok()) return;
  duck_.data_chunk_set_size(chunk_, row_);
  if (duck_.append_data_chunk(appender_, chunk_) != 0) {
    status_ = absl::UnavailableError(duck_.appender_error(appender_));
    return;
  }
  duck_.data_chunk_reset(chunk_);
  Prepare();
}

absl::Status TableWriter::Close() {
  Flush();
  if (status_.ok() && duck_.appender_close(appender_) != 0)
    status_ = absl::UnavailableError(duck_.appender_error(appender_));
  return status_;
}

}  // namespace gpumem
