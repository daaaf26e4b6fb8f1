// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Page: text for people, line by line, never wider than the terminal. Everything that is added is escaped here (utf8.h,
// EscapeControls), so a hostile name in a trace cannot steer the terminal whatever a section forgets; and put into the
// reader's language (base/phrases.h). Not thread-safe.
//
//   Page page(style);
//   page.Line({{Tone::kHeading, "Peak"}, {Tone::kPlain, "  74.20 GiB"}});
//   page.Table({Align::kRight, Align::kLeft}, {{"bytes", "allocated by"}, {"1 GiB", "train.py:42"}});
//   fputs(page.text().c_str(), stdout);

#ifndef GPUMEM_ANALYZER_RENDER_PAGE_H_
#define GPUMEM_ANALYZER_RENDER_PAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/console.h"

namespace gpumem {

struct Span {
  Tone tone = Tone::kPlain;
  std::string text;
};

enum class Align : uint8_t { kLeft, kRight };

class Page {
 public:
  explicit Page(const TextStyle& style) : style_(style) {}

  const TextStyle& style() const { return style_; }
  const std::string& text() const { return text_; }

  // An empty line, unless the page is empty or ends with one.
  void Gap();

  // One line; what does not fit is cut.
  void Line(const std::vector<Span>& spans);
  void Line(absl::string_view text, Tone tone = Tone::kPlain) { Line(std::vector<Span>{{tone, std::string(text)}}); }

  // As many lines as needed, broken at blanks; the first starts with `lead` and the following are indented as far as it
  // is wide.
  void Paragraph(absl::string_view lead, absl::string_view text, Tone tone = Tone::kPlain);

  // A block whose columns line up, indented by two. The first row is the heading where `heading` is set. The last
  // column may be cut. Cells are in the reader's language where they have no title or one of words.
  using Row = std::vector<std::string>;
  void Table(const std::vector<Align>& columns, const std::vector<Row>& rows, bool heading = true);

 private:
  std::string Safe(absl::string_view text) const;
  std::string Worded(absl::string_view text) const;  // in the reader's language
  std::string WordedCell(absl::string_view text, absl::string_view title) const;
  void SafeLine(const std::vector<Span>& spans);

  TextStyle style_;
  std::string text_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_RENDER_PAGE_H_
