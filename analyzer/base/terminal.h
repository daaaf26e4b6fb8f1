// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the reader's terminal can show, and text painted accordingly. Colour only on a terminal and never with NO_COLOR
// or TERM=dumb; block characters only where the locale says UTF-8; the width from the terminal, else from COLUMNS, else
// 100 columns, and then lines are not cut: in a file or a pipe nothing is gained by it.
//
//   const TextStyle style = DetectStyle(STDOUT_FILENO);
//   out += Paint(style, Tone::kAlarm, "OUT OF MEMORY");

#ifndef GPUMEM_ANALYZER_BASE_TERMINAL_H_
#define GPUMEM_ANALYZER_BASE_TERMINAL_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace gpumem {

struct TextStyle {
  bool terminal = false;
  bool color = false;
  bool utf8 = false;
  int width = 100;
  bool is_cut = true;  // false: paragraphs are wrapped at `width`, but lines keep their ends (a pipe, a file)

  // Columns after which a line is cut.
  int room() const { return is_cut ? width : 1000; }
  absl::string_view ellipsis() const { return utf8 ? "\u2026" : "..."; }
  absl::string_view arrow() const { return utf8 ? "\u2190" : "<-"; }
};

// What a piece of text is, not what it looks like.
enum class Tone : uint8_t { kPlain, kHeading, kAside, kGood, kWarning, kAlarm };

// Looks at the file descriptor and the environment (NO_COLOR, TERM, COLUMNS, LC_ALL, LC_CTYPE, LANG).
TextStyle DetectStyle(int fd);

// `text` in the colour of its tone; unchanged without colour. `text` must be free of control characters
// (EscapeControls).
std::string Paint(const TextStyle& style, Tone tone, absl::string_view text);

// `text` as it goes to a terminal, whoever wrote what is in it: lines, tabs and the colours of Paint stay; whatever
// else steers a terminal or misleads a reader (IsMisleading) becomes "\u001b", which JSON reads as the character again.
// The last guard behind EscapeControls and the JSON writer, for what forgot them.
std::string ForTerminal(absl::string_view text);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_TERMINAL_H_
