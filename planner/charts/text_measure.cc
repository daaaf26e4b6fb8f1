// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/text_measure.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/utf8.h"

namespace gpumem::plots {
namespace {

// Advance widths of DejaVu Sans from ' ' to '~', in thousandths of the font's size.
constexpr uint16_t kWidths[] = {318,  401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337,
                                636,  636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531,
                                1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787,
                                603,  787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500,
                                500,  613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612,
                                635,  635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838};
constexpr double kBoldFactor = 1.13;  // the mean over words; single letters differ
constexpr absl::string_view kEllipsis = "…";

double CharacterWidth(char32_t c) {
  if (c >= U' ' && c <= U'~') return kWidths[c - U' '] / 1000.0;
  return CharWidth(c) == 0 ? 0 : 1;  // an ellipsis, a dash, a Chinese character
}

}  // namespace

double TextWidth(absl::string_view text, double size, bool bold) {
  double width = 0;
  while (!text.empty()) {
    const DecodedChar next = DecodeUtf8(text);
    width += CharacterWidth(next.value);
    text.remove_prefix(next.length);
  }
  return width * size * (bold ? kBoldFactor : 1);
}

std::string FitText(absl::string_view text, double size, double room, bool bold) {
  if (TextWidth(text, size, bold) <= room) return std::string(text);
  room -= TextWidth(kEllipsis, size, bold);
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
