// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/text_measure.h"

#include <cairo.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/utf8.h"
#include "planner/charts/font.h"

namespace gpumem::plots {
namespace {

constexpr double kRulerSize = 1000;  // widths are even with the size, so one size measures for all
constexpr absl::string_view kEllipsis = "…";

// What cairo measures text with: a picture without pixels. Kept for the program's life.
cairo_t* NewRuler(bool bold) {
  cairo_surface_t* const surface = cairo_image_surface_create(CAIRO_FORMAT_A8, 0, 0);
  cairo_t* const ruler = cairo_create(surface);
  cairo_surface_destroy(surface);  // the ruler keeps it
  UseFont(kRulerSize, bold, ruler);
  return ruler;
}

}  // namespace

double TextWidth(absl::string_view text, double size, bool bold) {
  static cairo_t* const regular_ruler = NewRuler(/*bold=*/false);
  static cairo_t* const bold_ruler = NewRuler(/*bold=*/true);
  cairo_text_extents_t extents{};
  cairo_text_extents(bold ? bold_ruler : regular_ruler, EscapeControls(text).c_str(), &extents);
  return extents.x_advance * size / kRulerSize;
}

namespace {

// A file with folders, or a line of one: "examples/train_gpt.py:97 train_step". What tells such apart is at their end.
bool IsPlace(absl::string_view text) { return text.substr(0, text.find(' ')).find('/') != absl::string_view::npos; }

// The end of `text` that fits, from a folder on where one does.
std::string EndOfPlace(absl::string_view text, double size, double room, bool bold) {
  const size_t slash = text.substr(0, text.find(' ')).rfind('/');
  for (size_t at = text.find('/'); at <= slash; at = text.find('/', at + 1)) {
    if (TextWidth(text.substr(at), size, bold) <= room) return absl::StrCat(kEllipsis, text.substr(at));
  }
  size_t from = slash + 1;
  while (from < text.size() && TextWidth(text.substr(from), size, bold) > room)
    from += DecodeUtf8(text.substr(from)).length;
  return from == text.size() ? "" : absl::StrCat(kEllipsis, text.substr(from));
}

}  // namespace

std::string FitText(absl::string_view text, double size, double room, bool bold) {
  if (TextWidth(text, size, bold) <= room) return std::string(text);
  room -= TextWidth(kEllipsis, size, bold);
  if (IsPlace(text)) return EndOfPlace(text, size, room, bold);
  size_t kept = 0;
  double width = 0;
  while (kept < text.size()) {
    const DecodedChar next = DecodeUtf8(text.substr(kept));
    width += TextWidth(text.substr(kept, next.length), size, bold);
    if (width > room) break;
    kept += next.length;
  }
  while (kept > 0 && text[kept - 1] == ' ') --kept;
  return kept == 0 ? "" : absl::StrCat(text.substr(0, kept), kEllipsis);
}

std::vector<std::string> WrapText(absl::string_view text, double size, double room, size_t most_lines, bool bold) {
  std::vector<std::string> lines;
  if (most_lines == 0) return lines;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::string longer = lines.empty() ? std::string(word) : absl::StrCat(lines.back(), " ", word);
    if (!lines.empty() && (lines.size() == most_lines || TextWidth(longer, size, bold) <= room)) {
      lines.back() = longer;
    } else {
      lines.emplace_back(word);
    }
  }
  for (std::string& line : lines) line = FitText(line, size, room, bold);
  return lines;
}

}  // namespace gpumem::plots
