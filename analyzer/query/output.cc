// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/output.h"

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "base/json_writer.h"
#include "base/text_formats.h"
#include "base/utf8.h"
#include "query/cell_text.h"

namespace gpumem {
namespace {

constexpr size_t kRowsForWidths = 10'000;
constexpr size_t kFlushBytes = 1 << 16;
constexpr int kLeastWidth = 8;  // of a column that is cut
constexpr char kGap[] = "  ";

using TextsOfRow = std::vector<std::string>;

// Every row until `take` wants no more; what the statement's end says.
absl::Status ForEachRow(Rows* rows, const std::function<bool(uint64_t row)>& take) {
  while (rows->Next()) {
    for (uint64_t row = 0; row < rows->size(); ++row) {
      if (!take(row)) return absl::OkStatus();
    }
  }
  return rows->status();
}

class TableText {
 public:
  TableText(const std::vector<Rows::Column>& columns, const TableLayout& layout, const TextSink& sink)
      : layout_(layout), sink_(sink) {
    for (const Rows::Column& column : columns) {
      names_.push_back(EscapeControls(column.name));
      right_.push_back(IsNumeric(column.id));
    }
  }

  void Add(TextsOfRow row) {
    if (is_started_) return Print(row);
    first_.push_back(std::move(row));
    if (first_.size() == kRowsForWidths) Start();
  }
  void End() {
    if (!is_started_) Start();
    sink_(out_);
  }

 private:
  void Start() {
    is_started_ = true;
    for (const std::string& name : names_) widths_.push_back(DisplayWidth(name));
    for (const TextsOfRow& row : first_) {
      for (size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], DisplayWidth(row[i]));
    }
    Fit();
    Print(names_);
    TextsOfRow rule;
    for (const int width : widths_) rule.emplace_back(static_cast<size_t>(width), '-');
    Print(rule);
    for (const TextsOfRow& row : first_) Print(row);
    first_.clear();
  }

  // The widest text columns give way until the row fits the terminal.
  void Fit() {
    if (layout_.width <= 0) return;
    int all = -2;
    for (const int width : widths_) all += width + 2;
    while (all > layout_.width) {
      int widest = -1;
      for (int i = 0; i < static_cast<int>(widths_.size()); ++i) {
        const bool is_wider = widest < 0 || widths_[static_cast<size_t>(i)] > widths_[static_cast<size_t>(widest)];
        if (!right_[static_cast<size_t>(i)] && is_wider) widest = i;
      }
      if (widest < 0 || widths_[static_cast<size_t>(widest)] <= kLeastWidth) return;
      --widths_[static_cast<size_t>(widest)];
      --all;
    }
  }

  void Print(const TextsOfRow& row) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += kGap;
      const std::string text = layout_.width > 0 ? TruncateEnd(row[i], widths_[i], "…") : row[i];
      const bool is_last = i + 1 == row.size();
      line += right_[i] ? PadLeft(text, widths_[i]) : is_last ? text : PadRight(text, widths_[i]);
    }
    absl::StrAppend(&out_, line, "\n");
    if (out_.size() < kFlushBytes) return;
    sink_(out_);
    out_.clear();
  }

  TableLayout layout_;
  const TextSink& sink_;
  TextsOfRow names_;
  std::vector<bool> right_;
  std::vector<int> widths_;
  std::vector<TextsOfRow> first_;
  bool is_started_ = false;
  std::string out_;
};

absl::StatusOr<uint64_t> WriteTable(const TableLayout& layout, Rows* rows, const TextSink& sink) {
  TableText table(rows->columns(), layout, sink);
  uint64_t count = 0;
  bool has_more = false;
  const absl::Status status = ForEachRow(rows, [&](uint64_t row) {
    has_more = layout.most_rows != 0 && count == layout.most_rows;
    if (has_more) return false;
    TextsOfRow texts;
    for (size_t i = 0; i < rows->columns().size(); ++i) {
      const Cell cell = CellAt(*rows, i, row);
      texts.push_back(cell.is_null ? "NULL" : EscapeControls(cell.text));
    }
    table.Add(std::move(texts));
    ++count;
    return true;
  });
  if (!status.ok()) return status;
  table.End();
  if (has_more) {
    sink(absl::StrCat("(the first ", FormatCount(count), " rows; all of them in a pipe or file, or with --limit 0)\n"));
  } else {
    sink(absl::StrCat("(", FormatCountOf(count, "row", "rows"), ")\n"));
  }
  return count;
}

absl::StatusOr<uint64_t> WriteCsv(Rows* rows, const TextSink& sink) {
  std::string out;
  const size_t columns = rows->columns().size();
  for (size_t i = 0; i < columns; ++i) absl::StrAppend(&out, i == 0 ? "" : ",", CsvCell(rows->columns()[i].name));
  out += "\n";
  uint64_t count = 0;
  const absl::Status status = ForEachRow(rows, [&](uint64_t row) {
    for (size_t i = 0; i < columns; ++i) {
      const Cell cell = CellAt(*rows, i, row);
      // NULL is nothing, an empty text is "".
      const bool is_empty_text = !cell.is_null && cell.text.empty();
      absl::StrAppend(&out, i == 0 ? "" : ",",
                      is_empty_text    ? "\"\""
                      : cell.is_number ? cell.text
                                       : CsvCell(cell.text));
    }
    out += "\n";
    ++count;
    if (out.size() >= kFlushBytes) {
      sink(out);
      out.clear();
    }
    return true;
  });
  sink(out);
  if (!status.ok()) return status;
  return count;
}

std::string JsonQuoted(const std::string& text) {
  std::string quoted;
  JsonWriter(&quoted).Value(text);
  return quoted;
}

// Each name once: "a", "a_1".
std::vector<std::string> Keys(const std::vector<Rows::Column>& columns) {
  std::vector<std::string> keys;
  std::set<std::string> taken;
  for (const Rows::Column& column : columns) {
    std::string key = column.name;
    for (int i = 1; !taken.insert(key).second; ++i) key = absl::StrCat(column.name, "_", i);
    keys.push_back(JsonQuoted(key));
  }
  return keys;
}

absl::StatusOr<uint64_t> WriteJson(Rows* rows, const TextSink& sink) {
  const std::vector<std::string> keys = Keys(rows->columns());
  std::string out = "[";
  uint64_t count = 0;
  const absl::Status status = ForEachRow(rows, [&](uint64_t row) {
    absl::StrAppend(&out, count == 0 ? "\n  {" : ",\n  {");
    for (size_t i = 0; i < keys.size(); ++i) {
      const Cell cell = CellAt(*rows, i, row);
      const bool is_bare = cell.is_number || cell.is_boolean;
      absl::StrAppend(&out, i == 0 ? "" : ", ", keys[i], ": ",
                      cell.is_null ? "null"
                      : is_bare    ? cell.text
                                   : JsonQuoted(cell.text));
    }
    out += "}";
    ++count;
    if (out.size() >= kFlushBytes) {
      sink(out);
      out.clear();
    }
    return true;
  });
  sink(absl::StrCat(out, count == 0 ? "]" : "\n]"));
  if (!status.ok()) return status;
  return count;
}

}  // namespace

absl::StatusOr<uint64_t> WriteRows(RowFormat format, const TableLayout& layout, Rows* rows, const TextSink& sink) {
  switch (format) {
    case RowFormat::kCsv:
      return WriteCsv(rows, sink);
    case RowFormat::kJson:
      return WriteJson(rows, sink);
    case RowFormat::kTable:
      break;
  }
  return WriteTable(layout, rows, sink);
}

}  // namespace gpumem
