// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "render/page.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/phrases.h"
#include "base/utf8.h"

namespace gpumem {
namespace {

// A piece of text that stays on one line.
struct Unbroken {
  std::string text;
  bool is_after_blank = false;
};

// What stands before the end of a line, and never at the beginning of the next one.
bool Closes(char32_t c) {
  constexpr std::u32string_view kClosing =
      U"\u3001\u3002\uff0c\uff1b\uff1a\uff09\uff1f\uff01\u201d\u2019\u300b\u3011),.;:";
  return kClosing.find(c) != std::u32string_view::npos;
}

// Words; and, of writing that has no blanks, single characters.
std::vector<Unbroken> UnbrokenPieces(absl::string_view text) {
  std::vector<Unbroken> pieces;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    pieces.push_back({"", true});
    bool was_wide = false, opens = false;
    for (absl::string_view rest = word; !rest.empty();) {
      const DecodedChar c = DecodeUtf8(rest);
      const bool is_wide = CharWidth(c.value) == 2;
      if ((is_wide || was_wide) && !opens && !Closes(c.value) && !pieces.back().text.empty()) pieces.push_back({});
      absl::StrAppend(&pieces.back().text, rest.substr(0, c.length));
      rest.remove_prefix(c.length);
      was_wide = is_wide;
      opens = c.value == U'\uff08' || c.value == U'\u201c' || c.value == U'\u300a' || c.value == '(';
    }
  }
  return pieces;
}

}  // namespace

std::string Page::Worded(absl::string_view text) const { return InWords(style_.phrases, text); }

// Below a title of words as any other text.
std::string Page::WordedCell(absl::string_view text, absl::string_view title) const {
  if (style_.phrases == nullptr) return std::string(text);
  return style_.phrases->HasWords(title) ? style_.phrases->In(text) : style_.phrases->InCell(text);
}

std::string Page::Safe(absl::string_view text) const { return EscapeControls(text, /*ascii_only=*/!style_.utf8); }

void Page::Gap() {
  if (!text_.empty() && !absl::EndsWith(text_, "\n\n")) text_ += '\n';
}

void Page::Line(const std::vector<Span>& spans) {
  std::vector<Span> worded = spans;
  for (Span& span : worded) span.text = Worded(span.text);
  SafeLine(worded);
}

void Page::SafeLine(const std::vector<Span>& spans) {
  int room = style_.room();
  std::string line;
  for (const Span& span : spans) {
    const std::string whole = Safe(span.text);
    const std::string shown = TruncateEnd(whole, room, style_.ellipsis());
    line += Paint(style_, span.tone, shown);
    room -= DisplayWidth(shown);
    if (shown.size() != whole.size()) break;
  }
  if (!style_.color) absl::StripTrailingAsciiWhitespace(&line);
  absl::StrAppend(&text_, line, "\n");
}

void Page::Paragraph(absl::string_view lead, absl::string_view text, Tone tone) {
  // As wide as the other leads of its column, where it is of other words than they.
  const std::string first = PadRight(Safe(absl::StripTrailingAsciiWhitespace(Worded(lead))), DisplayWidth(lead));
  const int indent = DisplayWidth(first);
  const int room = std::max(style_.width - indent, 20);
  std::string line;
  std::string start = first;
  const auto flush = [&] {
    absl::StrAppend(&text_, start, Paint(style_, tone, TruncateEnd(line, room, style_.ellipsis())), "\n");
    start.assign(static_cast<size_t>(indent), ' ');
    line.clear();
  };
  for (const Unbroken& piece : UnbrokenPieces(Safe(Worded(text)))) {
    const absl::string_view blank = piece.is_after_blank && !line.empty() ? " " : "";
    if (!line.empty() && DisplayWidth(line) + static_cast<int>(blank.size()) + DisplayWidth(piece.text) > room) flush();
    absl::StrAppend(&line, line.empty() ? "" : blank, piece.text);
  }
  flush();
}

void Page::Table(const std::vector<Align>& columns, const std::vector<Row>& rows, bool heading) {
  std::vector<int> widths(columns.size(), 0);
  std::vector<Row> safe = rows;
  for (Row& row : safe) {
    const bool is_heading = heading && &row == &safe.front();
    for (size_t i = 0; i < row.size() && i < columns.size(); ++i) {
      const bool is_named = heading && !is_heading && i < rows.front().size() && !rows.front()[i].empty();
      row[i] = Safe(is_named ? WordedCell(row[i], rows.front()[i]) : Worded(row[i]));
      widths[i] = std::max(widths[i], DisplayWidth(row[i]));
    }
  }
  for (const Row& row : safe) {
    std::string line;
    for (size_t i = 0; i < row.size() && i < columns.size(); ++i) {
      const bool last = i + 1 == columns.size();
      absl::StrAppend(&line, "  ",
                      columns[i] == Align::kRight ? PadLeft(row[i], widths[i])
                      : last                      ? row[i]
                                                  : PadRight(row[i], widths[i]));
    }
    SafeLine({{heading && &row == &safe.front() ? Tone::kAside : Tone::kPlain, line}});
  }
}

}  // namespace gpumem
