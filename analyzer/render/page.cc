// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "render/page.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/utf8.h"

namespace gpumem {

std::string Page::Safe(absl::string_view text) const { return EscapeControls(text, /*ascii_only=*/!style_.utf8); }

void Page::Gap() {
  if (!text_.empty() && !absl::EndsWith(text_, "\n\n")) text_ += '\n';
}

void Page::Line(const std::vector<Span>& spans) {
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
  const std::string first = Safe(lead);
  const int indent = DisplayWidth(first);
  const int room = std::max(style_.width - indent, 20);
  std::string line;
  std::string start = first;
  const auto flush = [&] {
    absl::StrAppend(&text_, start, Paint(style_, tone, TruncateEnd(line, room, style_.ellipsis())), "\n");
    start.assign(static_cast<size_t>(indent), ' ');
    line.clear();
  };
  const std::string safe = Safe(text);
  for (const absl::string_view word : absl::StrSplit(safe, ' ', absl::SkipEmpty())) {
    if (!line.empty() && DisplayWidth(line) + 1 + DisplayWidth(word) > room) flush();
    absl::StrAppend(&line, line.empty() ? "" : " ", word);
  }
  flush();
}

void Page::Table(const std::vector<Align>& columns, const std::vector<Row>& rows, bool heading) {
  std::vector<int> widths(columns.size(), 0);
  std::vector<Row> safe = rows;
  for (Row& row : safe) {
    for (size_t i = 0; i < row.size() && i < columns.size(); ++i) {
      row[i] = Safe(row[i]);
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
    Line(line, heading && &row == &safe.front() ? Tone::kAside : Tone::kPlain);
  }
}

}  // namespace gpumem
