// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/json_writer.h"
#include "base/utf8.h"

namespace gpumem {
namespace {

constexpr int kNarrowest = 40, kWidest = 200;

absl::string_view Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? absl::string_view() : absl::string_view(value);
}

// The first of these that is set decides, as in setlocale().
bool LocaleIsUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = absl::AsciiStrToLower(Environment(name));
    if (!value.empty()) return absl::StrContains(value, "utf-8") || absl::StrContains(value, "utf8");
  }
  return false;
}

int Columns(int fd, bool terminal) {
  winsize size{};
  int columns = 100;
  if (terminal && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    columns = size.ws_col;
  } else if (int set = 0; absl::SimpleAtoi(Environment("COLUMNS"), &set) && set > 0) {
    columns = set;
  }
  return std::clamp(columns, kNarrowest, kWidest);
}

constexpr const char* kSequences[] = {"\033[0m", "\033[1m", "\033[2m", "\033[32m", "\033[33m", "\033[1;31m"};

const char* Sequence(Tone tone) { return kSequences[static_cast<size_t>(tone)]; }

// Bytes at the beginning of `text` that need no look: printable ASCII, line ends and tabs.
size_t PlainBytes(absl::string_view text) {
  size_t end = 0;
  while (end < text.size() && ((text[end] >= 0x20 && text[end] < 0x7F) || text[end] == '\n' || text[end] == '\t'))
    ++end;
  return end;
}

// Bytes of one of Paint's sequences at the beginning of `text`; else 0.
size_t PaintBytes(absl::string_view text) {
  for (const char* sequence : kSequences) {
    if (absl::StartsWith(text, sequence)) return std::strlen(sequence);
  }
  return 0;
}

}  // namespace

TextStyle DetectStyle(int fd) {
  TextStyle style;
  style.terminal = isatty(fd) == 1;
  style.color = style.terminal && Environment("NO_COLOR").empty() && Environment("TERM") != "dumb";
  style.utf8 = LocaleIsUtf8();
  style.width = Columns(fd, style.terminal);
  style.is_cut = style.terminal || !Environment("COLUMNS").empty();
  return style;
}

std::string Paint(const TextStyle& style, Tone tone, absl::string_view text) {
  if (!style.color || tone == Tone::kPlain || text.empty()) return std::string(text);
  return absl::StrCat(Sequence(tone), text, Sequence(Tone::kPlain));
}

std::string ForTerminal(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    size_t bytes = PlainBytes(text);
    if (bytes == 0) bytes = PaintBytes(text);
    if (bytes == 0) {
      const DecodedChar c = DecodeUtf8(text);
      if (c.valid && !IsMisleading(c.value)) {
        bytes = c.length;
      } else {
        AppendJsonEscape(c.valid ? c.value : char32_t{0xFFFD}, &out);
        text.remove_prefix(c.length);
        continue;
      }
    }
    absl::StrAppend(&out, text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return out;
}

}  // namespace gpumem
