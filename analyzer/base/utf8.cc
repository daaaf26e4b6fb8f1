// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/utf8.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gpumem {
namespace {

struct Range {
  uint32_t first, last;
};

// Unicode's East Asian Width W and F, in blocks: finer gaps inside a block are unassigned or wide in practice.
constexpr Range kWide[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23EC},   {0x2614, 0x2615},   {0x2648, 0x2653},
    {0x26A1, 0x26A1},   {0x26BD, 0x26BE},   {0x2705, 0x2705},   {0x274C, 0x274C},   {0x2753, 0x2755},
    {0x2E80, 0x303E},   {0x3041, 0x33FF},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},
    {0xA960, 0xA97C},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE10, 0xFE19},   {0xFE30, 0xFE6F},
    {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1B000, 0x1B2FF}, {0x1F004, 0x1F004}, {0x1F18E, 0x1F18E},
    {0x1F191, 0x1F19A}, {0x1F200, 0x1F320}, {0x1F32D, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F7E0, 0x1F7EB},
    {0x1F90C, 0x1F9FF}, {0x1FA70, 0x1FAFF}, {0x20000, 0x3FFFD}};

// Combining marks and other characters that take no column of their own.
constexpr Range kZero[] = {{0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x0610, 0x061A},  {0x064B, 0x065F},
                           {0x0E31, 0x0E31}, {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E}, {0x1AB0, 0x1AFF},  {0x1DC0, 0x1DFF},
                           {0x200B, 0x200D}, {0x2060, 0x2064}, {0x20D0, 0x20F0}, {0x302A, 0x302D},  {0x3099, 0x309A},
                           {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}, {0xE0100, 0xE01EF}};

template <size_t N>
bool InRanges(const Range (&ranges)[N], char32_t c) {
  const auto* range =
      std::upper_bound(std::begin(ranges), std::end(ranges), c, [](char32_t v, const Range& r) { return v < r.first; });
  return range != std::begin(ranges) && c <= std::prev(range)->last;
}

bool IsControl(char32_t c) { return c < 0x20 || (c >= 0x7F && c <= 0x9F); }

void AppendVisible(const DecodedChar& c, bool ascii_only, std::string* out) {
  if (!c.valid) {
    absl::StrAppendFormat(out, "\\x%02x", static_cast<uint32_t>(c.value));
  } else if (c.value == '\n') {
    out->append("\\n");
  } else if (c.value == '\t') {
    out->append("\\t");
  } else if (IsControl(c.value)) {
    absl::StrAppendFormat(out, "\\x%02x", static_cast<uint32_t>(c.value));
  } else if (IsMisleading(c.value) || (ascii_only && c.value > 0x7E)) {
    absl::StrAppendFormat(out, "\\u{%x}", static_cast<uint32_t>(c.value));
  } else {
    AppendUtf8(c.value, out);
  }
}

struct Piece {
  size_t offset, length;
  int width;
};

std::vector<Piece> Split(absl::string_view text) {
  std::vector<Piece> pieces;
  for (size_t pos = 0; pos < text.size();) {
    const DecodedChar c = DecodeUtf8(text.substr(pos));
    pieces.push_back({pos, c.length, c.valid ? CharWidth(c.value) : 1});
    pos += c.length;
  }
  return pieces;
}

}  // namespace

DecodedChar DecodeUtf8(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const DecodedChar broken{lead, 1, false};
  if (lead < 0x80) return {lead, 1, true};
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return broken;
  char32_t value = lead & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return broken;
    value = (value << 6) | (byte(i) & 0x3Fu);
  }
  const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  if (overlong || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return broken;
  return {value, length, true};
}

void AppendUtf8(char32_t c, std::string* out) {
  const auto put = [out](char32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

bool IsMisleading(char32_t c) {
  return IsControl(c) || c == 0x061C || (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x2069) || c == 0xFEFF || (c >= 0xE0000 && c <= 0xE007F) ||
         (c >= 0xFDD0 && c <= 0xFDEF) || (c & 0xFFFE) == 0xFFFE;  // noncharacters, which cairo refuses
}

std::string EscapeControls(absl::string_view text, bool ascii_only) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const DecodedChar c = DecodeUtf8(text.substr(pos));
    AppendVisible(c, ascii_only, &out);
    pos += c.length;
  }
  return out;
}

int CharWidth(char32_t c) {
  if (c < 0x300) return 1;
  if (InRanges(kZero, c)) return 0;
  return InRanges(kWide, c) ? 2 : 1;
}

int DisplayWidth(absl::string_view text) {
  int width = 0;
  for (const Piece& piece : Split(text)) width += piece.width;
  return width;
}

std::string TruncateEnd(absl::string_view text, int width, absl::string_view mark) {
  if (DisplayWidth(text) <= width) return std::string(text);
  const int room = width - DisplayWidth(mark);
  if (room < 0) return "";
  size_t end = 0;
  int used = 0;
  for (const Piece& piece : Split(text)) {
    if (used + piece.width > room) break;
    used += piece.width;
    end = piece.offset + piece.length;
  }
  return absl::StrCat(text.substr(0, end), mark);
}

std::string TruncateStart(absl::string_view text, int width, absl::string_view mark) {
  if (DisplayWidth(text) <= width) return std::string(text);
  const int room = width - DisplayWidth(mark);
  if (room < 0) return "";
  const std::vector<Piece> pieces = Split(text);
  size_t start = text.size();
  int used = 0;
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    if (used + piece->width > room) break;
    used += piece->width;
    start = piece->offset;
  }
  return absl::StrCat(mark, text.substr(start));
}

std::string PadRight(absl::string_view text, int width) {
  const int missing = width - DisplayWidth(text);
  return absl::StrCat(text, std::string(static_cast<size_t>(std::max(missing, 0)), ' '));
}

std::string PadLeft(absl::string_view text, int width) {
  const int missing = width - DisplayWidth(text);
  return absl::StrCat(std::string(static_cast<size_t>(std::max(missing, 0)), ' '), text);
}

}  // namespace gpumem
