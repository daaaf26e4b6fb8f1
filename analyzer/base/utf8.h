// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// UTF-8, and what a terminal makes of it. Names in a trace come from other people's programs: they may hold bytes that
// are no UTF-8, escape sequences, or characters that take two columns. Pure functions; any input is fine.
//
//   EscapeControls("a\x1b[31m")       // "a\\x1b[31m": shown, not obeyed
//   DisplayWidth("模型.py")            // 7
//   TruncateEnd("模型.py", 5, "…")     // "模型…"

#ifndef GPUMEM_ANALYZER_BASE_UTF8_H_
#define GPUMEM_ANALYZER_BASE_UTF8_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace gpumem {

struct DecodedChar {
  char32_t value = 0;  // the byte itself where !valid
  size_t length = 1;   // bytes taken, at least 1
  bool valid = false;
};

// The first character of `text`, which must not be empty. Overlong forms, surrogates and values past U+10FFFF are not
// valid.
DecodedChar DecodeUtf8(absl::string_view text);

void AppendUtf8(char32_t c, std::string* out);

// Whether the character steers a terminal or misleads a reader: control characters (line ends and tabs are such too),
// line separators, marks that turn the writing direction, and characters that nobody sees.
bool IsMisleading(char32_t c);

// `text` with everything that could steer a terminal or mislead a reader made visible: control characters, bytes that
// are no UTF-8, line separators, and the marks that turn the writing direction. With ascii_only every other non-ASCII
// character is escaped too.
std::string EscapeControls(absl::string_view text, bool ascii_only = false);

// Columns on a terminal: 0 for combining marks, 2 for East Asian wide characters and emoji.
int CharWidth(char32_t c);
int DisplayWidth(absl::string_view text);

// At most `width` columns: cut at the end (or the start) with `mark` in place of what was cut. Never splits a
// character.
std::string TruncateEnd(absl::string_view text, int width, absl::string_view mark);
std::string TruncateStart(absl::string_view text, int width, absl::string_view mark);

// Blanks added up to `width` columns; longer text stays as it is.
std::string PadRight(absl::string_view text, int width);
std::string PadLeft(absl::string_view text, int width);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_UTF8_H_
