// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "render/draw.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "base/utf8.h"
#include "render/sparkline.h"

namespace gpumem {
namespace {

// Anything that is there has at least a mark.
std::string Bar(double ratio, bool utf8) {
  constexpr int kColumns = 24;
  const int columns = ratio == 0 ? 0 : std::max(1, static_cast<int>(ratio * kColumns + 0.5));
  std::string bar;
  for (int i = 0; i < columns; ++i) bar += utf8 ? "\u2588" : "#";
  return bar;
}

// "linear.py:134 forward <- model.py:42 Block.forward <- train.py:9 <module>", as far as a line goes.
std::string Chain(const Datum& datum, const TextStyle& style) {
  std::string text;
  if (datum.list() == nullptr) return text;
  for (const Datum& each : *datum.list()) {
    if (text.size() >= 4 * static_cast<size_t>(style.width)) break;
    absl::StrAppend(&text, text.empty() ? "" : absl::StrCat(" ", style.arrow(), " "), each.Shown(Unit::kText));
  }
  return text;
}

std::string CurveOf(const Datum& datum, const TextStyle& style) {
  std::vector<uint64_t> values;
  for (const Datum& each : *datum.list()) values.push_back(each.magnitude());
  return Sparkline(values, values.empty() ? 0 : *std::max_element(values.begin(), values.end()), style.utf8);
}

std::string Cell(const Item& table, size_t row, size_t column, const TextStyle& style) {
  const Unit unit = table.columns[column].unit;
  if (unit == Unit::kBar) return Bar(table.data(row, column).ratio(), style.utf8);
  if (unit == Unit::kCurve) return CurveOf(table.data(row, column), style);
  return unit == Unit::kChain ? Chain(table.data(row, column), style) : table.shown(row, column);
}

bool IsToTheLeft(Unit unit) {
  return unit == Unit::kText || unit == Unit::kBar || unit == Unit::kChain || unit == Unit::kCurve;
}

void DrawTable(const Item& table, Page* page) {
  std::vector<size_t> shown;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (!table.columns[i].title.empty() && table.columns[i].telling) shown.push_back(i);
  }
  if (shown.empty()) return;
  std::vector<Align> alignment;
  std::vector<Page::Row> rows(1);
  for (const size_t column : shown) {
    alignment.push_back(IsToTheLeft(table.columns[column].unit) ? Align::kLeft : Align::kRight);
    const std::string& title = table.columns[column].title;
    rows.front().push_back(title == kNoTitle ? "" : title);
  }
  const bool has_heading =
      std::any_of(rows.front().begin(), rows.front().end(), [](const std::string& title) { return !title.empty(); });
  if (!has_heading) rows.clear();
  for (size_t i = table.first; i < table.first + table.rows; ++i) {
    Page::Row& row = rows.emplace_back();
    for (const size_t column : shown) row.push_back(Cell(table, i, column, page->style()));
  }
  page->Table(alignment, rows, has_heading);
  if (table.left > 0)
    page->Line(absl::StrCat("  ", FormatCount(table.left), " more", table.rest, ": --top 0"), Tone::kAside);
}

// A chart with its scale on the left, and a line of time below it.
void DrawChart(const TimeCurve& curve, Page* page) {
  constexpr int kScale = 12;
  const TextStyle& style = page->style();
  const auto columns = static_cast<size_t>(std::max(style.width - kScale - 2, 10));
  const std::vector<std::string> rows = Chart(curve.values(columns), curve.top, curve.rows, style.utf8);
  page->Line(curve.lead);
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool has_scale = i == 0 || i == curve.rows / 2;
    const std::string scale = has_scale ? FormatBytes(curve.top * (curve.rows - i) / curve.rows) : "";
    page->Line({{Tone::kAside, absl::StrCat(PadLeft(scale, kScale - 1), " |")}, {Tone::kGood, rows[i]}});
  }
  page->Line({{Tone::kAside, absl::StrCat(PadLeft("0 B", kScale - 1), " +", std::string(columns, '-'))}});
  page->Line({{Tone::kAside, absl::StrCat(std::string(kScale + 1, ' '), curve.from,
                                          PadLeft(curve.to, static_cast<int>(columns) - DisplayWidth(curve.from)))}});
}

void DrawCurve(const TimeCurve& curve, Page* page) {
  if (curve.rows > 1) return DrawChart(curve, page);
  const auto columns = static_cast<size_t>(std::clamp(page->style().width - curve.room, 8, 120));
  std::vector<Span> spans = curve.lead;
  spans.push_back({Tone::kGood, Sparkline(curve.values(columns), curve.top, page->style().utf8)});
  spans.insert(spans.end(), curve.after.begin(), curve.after.end());
  page->Line(spans);
}

void WriteTable(const Item& table, JsonWriter* json, ChunkedText* out) {
  json->Key(table.key);
  json->BeginArray();
  for (size_t i = table.first; i < table.first + table.rows; ++i) {
    json->BeginObject(table.layout);
    for (size_t column = 0; column < table.columns.size(); ++column) {
      if (table.columns[column].key.empty()) continue;
      const Datum datum = table.data(i, column);
      if (datum.is_absent()) continue;
      json->Key(table.columns[column].key);
      datum.Write(json);
    }
    json->EndObject();
    if (out != nullptr) out->MaybeFlush();
  }
  json->EndArray();
}

void DrawItem(const Item& item, Page* page) {
  if (!item.is_shown) return;
  switch (item.kind) {
    case Item::Kind::kGap:
      return page->Gap();
    case Item::Kind::kLine:
      return page->Line(item.spans);
    case Item::Kind::kParagraph:
      return page->Paragraph(item.lead, item.text, item.tone);
    case Item::Kind::kTable:
      return DrawTable(item, page);
    case Item::Kind::kCurve:
      return DrawCurve(*item.curve, page);
    case Item::Kind::kShown:
      return Draw(item.make(page->style()), page);
    case Item::Kind::kObject:
    case Item::Kind::kDocuments:
      for (const auto& document : item.documents) Draw(*document, page);
      return;
    case Item::Kind::kField:
      return;
  }
}

void WriteItem(const Item& item, JsonWriter* json, ChunkedText* out);

void WriteObject(const Document& document, JsonWriter* json, ChunkedText* out, JsonLayout layout = JsonLayout::kLines) {
  json->BeginObject(layout);
  for (const Item& item : document.items()) WriteItem(item, json, out);
  json->EndObject();
}

void WriteItem(const Item& item, JsonWriter* json, ChunkedText* out) {
  if (item.key.empty()) return;
  if (item.kind == Item::Kind::kTable) return WriteTable(item, json, out);
  json->Key(item.key);
  if (item.kind == Item::Kind::kField) return item.datum.Write(json);
  if (item.kind == Item::Kind::kObject) return WriteObject(*item.documents.front(), json, out);
  json->BeginArray();
  for (const auto& document : item.documents) WriteObject(*document, json, out);
  json->EndArray();
}

class KeyList {
 public:
  // What was added so far is said elsewhere.
  void Forget() {
    said_elsewhere_.merge(said_);
    said_.clear();
    known_.clear();
    rows_.clear();
  }
  void Add(const std::string& key, const std::string& meaning) {
    if (key.empty() || meaning.empty() || said_elsewhere_.count({key, meaning}) != 0 || !known_.insert(key).second)
      return;
    said_.emplace(key, meaning);
    for (auto& [keys, said] : rows_) {
      if (said == meaning) return static_cast<void>(absl::StrAppend(&keys, ", `", key, "`"));
    }
    rows_.emplace_back(absl::StrCat("`", key, "`"), meaning);
  }
  std::string Rows() const {
    std::string rows;
    for (const auto& [keys, meaning] : rows_) absl::StrAppend(&rows, "| ", keys, " | ", meaning, " |\n");
    return rows;
  }

 private:
  std::vector<std::pair<std::string, std::string>> rows_;
  std::set<std::string> known_;
  std::set<std::pair<std::string, std::string>> said_, said_elsewhere_;
};

// Of an object and all that it has; of a list by its first item.
void AddKeys(const Datum& datum, KeyList* keys) {
  if (const std::vector<Datum>* const list = datum.list(); list != nullptr && !list->empty())
    AddKeys(list->front(), keys);
  if (datum.members() == nullptr) return;
  for (const Member& member : *datum.members()) {
    keys->Add(member.key, member.meaning);
    AddKeys(member.value, keys);
  }
}

void AddKeys(const Document& document, KeyList* keys) {
  for (const Item& item : document.items()) {
    keys->Add(item.key, item.meaning);
    if (item.key.empty() && item.documents.empty()) continue;
    AddKeys(item.datum, keys);
    for (size_t i = 0; i < item.columns.size(); ++i) {
      keys->Add(item.columns[i].key, item.columns[i].meaning);
      if (item.rows > 0 && !item.columns[i].key.empty()) AddKeys(item.data(item.first, i), keys);
    }
    for (const auto& within : item.documents) AddKeys(*within, keys);
  }
}

}  // namespace

std::string KeyRows(const Document& document, const std::vector<Document>& elsewhere) {
  KeyList keys;
  for (const Document& each : elsewhere) {
    AddKeys(each, &keys);
    keys.Forget();
  }
  AddKeys(document, &keys);
  return keys.Rows();
}

void Draw(const Document& document, Page* page) {
  for (const Item& item : document.items()) DrawItem(item, page);
}

std::string ToText(const Document& document, const TextStyle& style) {
  Page page(style);
  Draw(document, &page);
  return page.text();
}

void WriteMembers(const Document& document, JsonWriter* json) {
  for (const Item& item : document.items()) WriteItem(item, json, nullptr);
}

void WriteJson(const Document& document, const TextSink& sink, JsonLayout layout) {
  ChunkedText out(sink);
  JsonWriter json(out.text());
  WriteObject(document, &json, &out, layout);
  out.text()->push_back('\n');
}

std::string ToJson(const Document& document, JsonLayout layout) {
  std::string all;
  WriteJson(
      document, [&all](absl::string_view text) { absl::StrAppend(&all, text); }, layout);
  return all;
}

}  // namespace gpumem
