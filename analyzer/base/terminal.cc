// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

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

const char* Sequence(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return "";
    case Tone::kHeading:
      return "\033[1m";
    case Tone::kAside:
      return "\033[2m";
    case Tone::kGood:
      return "\033[32m";
    case Tone::kWarning:
      return "\033[33m";
    case Tone::kAlarm:
      return "\033[1;31m";
  }
  return "";
}

}  // namespace

TextStyle DetectStyle(int fd) {
  TextStyle style;
  style.terminal = isatty(fd) == 1;
  style.color = style.terminal && Environment("NO_COLOR").empty() && Environment("TERM") != "dumb";
  style.utf8 = LocaleIsUtf8();
  style.width = Columns(fd, style.terminal);
  return style;
}

std::string Paint(const TextStyle& style, Tone tone, absl::string_view text) {
  if (!style.color || tone == Tone::kPlain || text.empty()) return std::string(text);
  return absl::StrCat(Sequence(tone), text, "\033[0m");
}

}  // namespace gpumem
