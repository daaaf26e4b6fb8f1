// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Document: an answer as a value that does not know how it is drawn: fields, headings, paragraphs, tables, curves, and
// documents within it. A table declares each column once, and text, JSON and docs/json.md follow from that. Drawn by
// render/draw.h.
//
// A document refers to the rows of its tables and computes a cell when it is drawn: what it was made from must outlive
// it. Not thread-safe; copies share their rows. Nothing here fails.
//
//   Document answer;
//   answer.Field("counted_by", "optimizer", "what a step ends with");
//   answer.Heading("Steps on GPU 0", "PyTorch's allocated bytes");
//   answer.Table("steps", "one object a step, in order", columns, steps, {});

#ifndef GPUMEM_ANALYZER_RENDER_DOCUMENT_H_
#define GPUMEM_ANALYZER_RENDER_DOCUMENT_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/json_writer.h"
#include "render/page.h"

namespace gpumem {

// What a number counts; says how people read it: "3.50 GiB", "+12.0 MiB", "1,234" (kCount), "1234" (kNumber), "1.20 s",
// "54 %" and a bar (of 1), "a <- b <- c" and a curve (of a list); kBytesOrDash: "-" of none; kAlignedBytes: always
// three digits.
enum class Unit : uint8_t {
  kText,
  kBytes,
  kBytesOrDash,
  kAlignedBytes,
  kGrowth,
  kCount,
  kNumber,
  kTime,
  kShare,
  kBar,
  kChain,
  kCurve,
  kObject
};

struct Member;

// A value as machines want it: exact. A tree where it has parts.
class Datum {
 public:
  Datum();  // null: not known
  Datum(bool value);
  Datum(double value);
  Datum(std::unsigned_integral auto value);
  Datum(std::signed_integral auto value);
  Datum(std::string value);
  Datum(absl::string_view value);
  Datum(const char* value);
  template <typename T>
  Datum(const std::optional<T>& value);

  static Datum Object(std::vector<Member> members, JsonLayout layout = JsonLayout::kLines);
  static Datum List(std::vector<Datum> items, JsonLayout layout = JsonLayout::kLines);
  static Datum Share(uint64_t part, uint64_t whole);  // 0 of nothing
  // Null where `known` is false.
  static Datum If(bool known, Datum value);
  static Datum TextOrNull(absl::string_view text);
  // Of a row that lacks the column: not even its key is written.
  static Datum Absent();

  const std::vector<Member>* members() const { return std::get_if<Members>(&value_); }  // nullptr: not an object
  const std::vector<Datum>* list() const { return std::get_if<Items>(&value_); }        // nullptr: not a list
  uint64_t magnitude() const;                                                           // of a whole number
  double ratio() const { return std::holds_alternative<double>(value_) ? std::get<double>(value_) : 0; }
  bool is_absent() const { return is_absent_; }
  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  void Write(JsonWriter* json) const;
  std::string Shown(Unit unit) const;  // nothing where it is not known

 private:
  using Members = std::vector<Member>;
  using Items = std::vector<Datum>;

  std::variant<std::monostate, bool, uint64_t, int64_t, double, std::string, Members, Items> value_;
  JsonLayout layout_ = JsonLayout::kLines;
  bool is_absent_ = false;
};

struct Member {
  std::string key;
  Datum value;
  std::string meaning = {};  // for docs/json.md; "" = the object's own says it
};

// Here, since clang 14 takes a variant of vectors of Member apart in them, for which Member must be complete.
inline Datum::Datum() = default;
inline Datum::Datum(bool value) : value_(value) {}
inline Datum::Datum(double value) : value_(value) {}
Datum::Datum(std::unsigned_integral auto value) : value_(uint64_t{value}) {}
Datum::Datum(std::signed_integral auto value) : value_(int64_t{value}) {}
inline Datum::Datum(std::string value) : value_(std::move(value)) {}
inline Datum::Datum(absl::string_view value) : value_(std::string(value)) {}
inline Datum::Datum(const char* value) : value_(std::string(value)) {}
template <typename T>
Datum::Datum(const std::optional<T>& value) : Datum(value.has_value() ? Datum(*value) : Datum()) {}
inline Datum Datum::If(bool known, Datum value) { return known ? std::move(value) : Datum(); }
inline Datum Datum::TextOrNull(absl::string_view text) { return If(!text.empty(), text); }

inline constexpr char kNoTitle[] = " ";  // of a column for people that needs none

// One column of a table of Rows: for machines by `key`, for people under `title`; one that lacks either is for the
// other alone.
template <typename Row>
struct AnswerColumn {
  using Value = std::function<Datum(const Row&)>;
  using Text = std::function<std::string(const Row&)>;

  AnswerColumn(absl::string_view key_, absl::string_view title_, Unit unit_, absl::string_view meaning_, Value value_,
               Text shown_ = Text())
      : key(key_), title(title_), unit(unit_), meaning(meaning_), value(std::move(value_)), shown(std::move(shown_)) {}
  // For machines alone.
  AnswerColumn(absl::string_view key_, absl::string_view meaning_, Value value_)
      : AnswerColumn(key_, "", Unit::kText, meaning_, std::move(value_)) {}

  std::string key, title;
  Unit unit;
  std::string meaning;                      // for docs/json.md
  Value value;                              // null: for people alone
  Text shown;                               // where people read it in another way than its unit says; else null
  std::function<bool(const Row&)> telling;  // people get it only if it is so of a row; null: always
};

// All that machines get of a row.
template <typename Row>
Datum ObjectOf(const std::vector<AnswerColumn<Row>>& columns, const Row& row,
               JsonLayout layout = JsonLayout::kOneLine) {
  std::vector<Member> members;
  for (const AnswerColumn<Row>& column : columns) {
    if (!column.key.empty()) members.push_back({column.key, column.value(row), column.meaning});
  }
  return Datum::Object(std::move(members), layout);
}

// Values over time. One row: `lead`, the curve as wide as `room` columns of other text leave it, `after`; more rows:
// below a line of `lead` a chart with a scale in bytes, and `from` and `to` below its ends.
struct TimeCurve {
  std::vector<Span> lead, after;
  int room = 0;
  size_t rows = 1;
  std::string from, to;
  uint64_t top = 0;                                           // of the scale
  std::function<std::vector<uint64_t>(size_t count)> values;  // so many
};

// A part of a document.
struct Item {
  enum class Kind : uint8_t { kField, kLine, kParagraph, kGap, kTable, kCurve, kObject, kDocuments, kShown };

  struct ColumnHead {
    std::string key, title, meaning;
    Unit unit = Unit::kText;
    bool telling = true;
  };

  Kind kind = Kind::kGap;
  std::string key, meaning;  // "" = not for machines
  bool is_shown = true;      // false: not for people

  Datum datum;              // kField
  std::vector<Span> spans;  // kLine
  std::string lead, text;   // kParagraph
  Tone tone = Tone::kPlain;

  // kTable
  std::vector<ColumnHead> columns;
  size_t first = 0, rows = 0, left = 0;
  std::string rest;  // of what is left, for people
  JsonLayout layout = JsonLayout::kLines;
  std::function<Datum(size_t row, size_t column)> data;
  std::function<std::string(size_t row, size_t column)> shown;

  std::shared_ptr<const TimeCurve> curve;

  std::vector<std::shared_ptr<const class Document>> documents;  // kDocuments; kObject: one

  std::function<class Document(const TextStyle&)> make;  // kShown
};

class Document {
 public:
  const std::vector<Item>& items() const { return items_; }

  // For machines alone.
  void Field(absl::string_view key, Datum value, absl::string_view meaning);

  // For people alone.
  void Gap() { items_.emplace_back(); }
  void Line(std::vector<Span> spans);
  void Line(absl::string_view text, Tone tone = Tone::kPlain) { Line(std::vector<Span>{{tone, std::string(text)}}); }
  void Heading(absl::string_view text, absl::string_view aside = "");  // a gap before it
  void Paragraph(absl::string_view lead, absl::string_view text, Tone tone = Tone::kPlain);

  // A table for people whose cells are words; the first row is the heading where `has_heading`.
  void Cells(const std::vector<Align>& columns, std::vector<Page::Row> rows, bool has_heading = true);
  void Curve(TimeCurve curve);
  // What depends on how wide a line is, or is not worth making for machines.
  void Shown(std::function<Document(const TextStyle&)> make);

  struct Rows {
    size_t first = 0, count = SIZE_MAX;  // of the rows, which are drawn
    JsonLayout layout = JsonLayout::kLines;
    bool is_shown = true;      // false: for machines alone
    bool counts_rest = false;  // people read how many rows come after the last, "12 more: --top 0",
    std::string rest = {};     // with this after "more": " with 1.20 GiB"
  };
  // Columns stand in the order of text; "" as `key`: for people alone. Where no column has a title: for machines alone.
  // No heading where each title is kNoTitle.
  template <typename Row>
  void Table(absl::string_view key, absl::string_view meaning, std::vector<AnswerColumn<Row>> columns,
             std::shared_ptr<const std::vector<Row>> rows, Rows which);
  template <typename Row>
  void Table(absl::string_view key, absl::string_view meaning, std::vector<AnswerColumn<Row>> columns,
             const std::vector<Row>& rows, Rows which) {
    Table(key, meaning, std::move(columns),
          std::shared_ptr<const std::vector<Row>>(std::shared_ptr<const std::vector<Row>>(), &rows), which);
  }
  // Keeps `rows`.
  template <typename Row>
  void Table(absl::string_view key, absl::string_view meaning, std::vector<AnswerColumn<Row>> columns,
             std::vector<Row>&& rows, Rows which) {
    Table(key, meaning, std::move(columns), std::make_shared<const std::vector<Row>>(std::move(rows)), which);
  }

  // An object under `key`; people read what is in it.
  void Object(absl::string_view key, absl::string_view meaning, Document document);
  // A list of objects under `key`; people read them one after the other.
  void Documents(absl::string_view key, absl::string_view meaning, std::vector<Document> documents);

  void Append(Document other);
  // What machines get of it.
  void AppendFields(Document other);

 private:
  std::vector<Item> items_;
};

template <typename Row>
void Document::Table(absl::string_view key, absl::string_view meaning, std::vector<AnswerColumn<Row>> columns,
                     std::shared_ptr<const std::vector<Row>> rows, Rows which) {
  Item& item = items_.emplace_back();
  item.kind = Item::Kind::kTable;
  item.key = std::string(key);
  item.meaning = std::string(meaning);
  item.first = which.first < rows->size() ? which.first : rows->size();
  item.rows = rows->size() - item.first < which.count ? rows->size() - item.first : which.count;
  if (which.counts_rest) item.left = rows->size() - item.first - item.rows;
  item.rest = std::move(which.rest);
  item.layout = which.layout;
  item.is_shown = which.is_shown;
  for (const AnswerColumn<Row>& column : columns) {
    bool telling = column.telling == nullptr;
    for (size_t i = 0; i < rows->size() && !telling; ++i) telling = column.telling((*rows)[i]);
    item.columns.push_back({column.key, column.title, column.meaning, column.unit, telling});
  }
  const auto shared = std::make_shared<const std::vector<AnswerColumn<Row>>>(std::move(columns));
  item.data = [shared, rows](size_t row, size_t column) { return (*shared)[column].value((*rows)[row]); };
  item.shown = [shared, rows](size_t row, size_t column) {
    const AnswerColumn<Row>& asked = (*shared)[column];
    return asked.shown != nullptr ? asked.shown((*rows)[row]) : asked.value((*rows)[row]).Shown(asked.unit);
  };
}

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_RENDER_DOCUMENT_H_
