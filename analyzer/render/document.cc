// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "render/document.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "render/cells.h"

namespace gpumem {

Datum Datum::Object(std::vector<Member> members, JsonLayout layout) {
  Datum datum;
  datum.value_ = std::move(members);
  datum.layout_ = layout;
  return datum;
}

Datum Datum::List(std::vector<Datum> items, JsonLayout layout) {
  Datum datum;
  datum.value_ = std::move(items);
  datum.layout_ = layout;
  return datum;
}

Datum Datum::Absent() {
  Datum datum;
  datum.is_absent_ = true;
  return datum;
}

Datum Datum::Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

void Datum::Write(JsonWriter* json) const {
  if (const auto* const members = std::get_if<Members>(&value_)) {
    json->BeginObject(layout_);
    for (const Member& member : *members) {
      if (member.value.is_absent()) continue;
      json->Key(member.key);
      member.value.Write(json);
    }
    json->EndObject();
  } else if (const auto* const items = std::get_if<Items>(&value_)) {
    json->BeginArray(layout_);
    for (const Datum& item : *items) item.Write(json);
    json->EndArray();
  } else if (is_null()) {
    json->Null();
  } else if (const auto* const flag = std::get_if<bool>(&value_)) {
    json->Value(*flag);
  } else if (const auto* const number = std::get_if<uint64_t>(&value_)) {
    json->Value(*number);
  } else if (const auto* const difference = std::get_if<int64_t>(&value_)) {
    json->Value(*difference);
  } else if (const auto* const real = std::get_if<double>(&value_)) {
    json->Value(*real);
  } else {
    json->Value(std::get<std::string>(value_));
  }
}

uint64_t Datum::magnitude() const {
  if (const auto* const number = std::get_if<uint64_t>(&value_)) return *number;
  const auto* const difference = std::get_if<int64_t>(&value_);
  if (difference == nullptr) return 0;
  return *difference < 0 ? uint64_t{0} - static_cast<uint64_t>(*difference) : static_cast<uint64_t>(*difference);
}

std::string Datum::Shown(Unit unit) const {
  if (is_null()) return "";
  if (const auto* const text = std::get_if<std::string>(&value_)) return *text;
  if (const auto* const flag = std::get_if<bool>(&value_)) return *flag ? "yes" : "no";
  const auto* const difference = std::get_if<int64_t>(&value_);
  const bool is_less = difference != nullptr && *difference < 0;
  switch (unit) {
    case Unit::kBytes:
      return absl::StrCat(is_less ? "-" : "", FormatBytes(magnitude()));
    case Unit::kBytesOrDash:
      return BytesOrDash(magnitude());
    case Unit::kAlignedBytes:
      return FormatBytesAligned(magnitude());
    case Unit::kGrowth:
      return absl::StrCat(is_less ? "-" : magnitude() == 0 ? "" : "+", FormatBytes(magnitude()));
    case Unit::kTime:
      return FormatTime(magnitude());
    case Unit::kCount:
      return absl::StrCat(is_less ? "-" : "", FormatCount(magnitude()));
    case Unit::kNumber:
      return absl::StrCat(is_less ? "-" : "", magnitude());
    case Unit::kShare:
      return FormatPercent(ratio());
    case Unit::kText:
    case Unit::kBar:
    case Unit::kChain:
    case Unit::kCurve:
    case Unit::kObject:
      break;
  }
  return "";
}

void Document::Field(absl::string_view key, Datum value, absl::string_view meaning) {
  Item& item = items_.emplace_back();
  item.kind = Item::Kind::kField;
  item.key = std::string(key);
  item.meaning = std::string(meaning);
  item.datum = std::move(value);
}

void Document::Line(std::vector<Span> spans) {
  Item& item = items_.emplace_back();
  item.kind = Item::Kind::kLine;
  item.spans = std::move(spans);
}

void Document::Heading(absl::string_view text, absl::string_view aside) {
  Gap();
  std::vector<Span> spans{{Tone::kHeading, std::string(text)}};
  if (!aside.empty()) spans.push_back({Tone::kAside, absl::StrCat("  ", aside)});
  Line(std::move(spans));
}

void Document::Paragraph(absl::string_view lead, absl::string_view text, Tone tone) {
  Item& item = items_.emplace_back();
  item.kind = Item::Kind::kParagraph;
  item.lead = std::string(lead);
  item.text = std::string(text);
  item.tone = tone;
}

void Document::Cells(const std::vector<Align>& columns, std::vector<Page::Row> rows, bool has_heading) {
  Item& item = items_.emplace_back();
  item.kind = Item::Kind::kTable;
  for (size_t i = 0; i < columns.size(); ++i) {
    const bool has_title = has_heading && !rows[0][i].empty();
    item.columns.push_back(
        {"", has_title ? rows[0][i] : kNoTitle, "", columns[i] == Align::kLeft ? Unit::kText : Unit::kNumber});
  }
  item.first = has_heading ? 1 : 0;
  item.rows = rows.size() - item.first;
  item.shown = [cells = std::make_shared<const std::vector<Page::Row>>(std::move(rows))](size_t row, size_t column) {
    return (*cells)[row][column];
  };
}

void Document::Curve(TimeCurve curve) {
  Item& item = items_.emplace_back();
  item.kind = Item::Kind::kCurve;
  item.curve = std::make_shared<const TimeCurve>(std::move(curve));
}

void Document::Shown(std::function<Document(const TextStyle&)> make) {
  Item& item = items_.emplace_back();
  item.kind = Item::Kind::kShown;
  item.make = std::move(make);
}

void Document::Object(absl::string_view key, absl::string_view meaning, Document document) {
  Item& item = items_.emplace_back();
  item.kind = Item::Kind::kObject;
  item.key = std::string(key);
  item.meaning = std::string(meaning);
  item.documents.push_back(std::make_shared<const Document>(std::move(document)));
}

void Document::Documents(absl::string_view key, absl::string_view meaning, std::vector<Document> documents) {
  Item& item = items_.emplace_back();
  item.kind = Item::Kind::kDocuments;
  item.key = std::string(key);
  item.meaning = std::string(meaning);
  for (Document& document : documents) item.documents.push_back(std::make_shared<const Document>(std::move(document)));
}

void Document::Append(Document other) {
  items_.insert(items_.end(), std::make_move_iterator(other.items_.begin()),
                std::make_move_iterator(other.items_.end()));
}

void Document::AppendFields(Document other) {
  for (Item& item : other.items_) item.is_shown = false;
  Append(std::move(other));
}

}  // namespace gpumem
