// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/text_measure.h"

#include <cairo.h>

#include <algorithm>

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

// Where the number of a line begins, with its colon, in "examples/train_gpt.py:97 train_step"; npos: it is no line.
size_t LineNumberIn(absl::string_view text) {
  const absl::string_view file = text.substr(0, text.find(' '));
  const size_t colon = file.rfind(':');
  const bool is_line = colon != absl::string_view::npos && colon + 1 < file.size() &&
                       file.find_first_not_of("0123456789", colon + 1) == absl::string_view::npos;
  return is_line ? colon : absl::string_view::npos;
}

// A file with folders, or a line of one. What tells such apart is at their end.
bool IsPlace(absl::string_view text) {
  return text.substr(0, text.find(' ')).find('/') != absl::string_view::npos ||
         LineNumberIn(text) != absl::string_view::npos;
}

// The end of `text` that fits, from `from` up to `last` on; "" where none does.
std::string EndFrom(absl::string_view text, size_t from, size_t last, double size, double room, bool bold) {
  while (from < text.size() && from <= last && TextWidth(text.substr(from), size, bold) > room)
    from += DecodeUtf8(text.substr(from)).length;
  return from == text.size() || from > last ? "" : absl::StrCat(kEllipsis, text.substr(from));
}

// The end of `text` that fits, from a folder on where one does. The number of its line stays, rather than its function.
std::string EndOfPlace(absl::string_view text, double size, double room, bool bold) {
  const size_t slash = text.substr(0, text.find(' ')).rfind('/');
  const size_t name = slash == absl::string_view::npos ? 0 : slash + 1;
  for (size_t at = text.find('/'); name != 0 && at < name; at = text.find('/', at + 1)) {
    if (TextWidth(text.substr(at), size, bold) <= room) return absl::StrCat(kEllipsis, text.substr(at));
  }
  const size_t number = LineNumberIn(text);
  if (std::string cut = EndFrom(text, name, std::min(number, text.size()), size, room, bold); !cut.empty()) return cut;
  const absl::string_view line = text.substr(name, number == absl::string_view::npos ? 0 : text.find(' ') - name);
  const double whole = room + TextWidth(kEllipsis, size, bold);  // without an ellipsis there is room for it
  return TextWidth(line, size, bold) <= whole ? std::string(line) : EndFrom(line, 0, line.size(), size, room, bold);
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
