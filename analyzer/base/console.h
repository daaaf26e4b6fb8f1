// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a command says, and what the reader's terminal can show of it.

#ifndef GPUMEM_ANALYZER_BASE_CONSOLE_H_
#define GPUMEM_ANALYZER_BASE_CONSOLE_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpumem {

class Phrases;

// What the reader's terminal can show, and text painted accordingly. Colour only on a terminal and never with NO_COLOR
// or TERM=dumb; block characters only where the locale says UTF-8; the width from the terminal, else from COLUMNS, else
// 100 columns, and then lines are not cut: in a file or a pipe nothing is gained by it.
//
//   const TextStyle style = DetectStyle(STDOUT_FILENO);
//   out += Paint(style, Tone::kAlarm, "OUT OF MEMORY");
struct TextStyle {
  bool terminal = false;
  bool color = false;
  bool utf8 = false;
  int width = 100;
  const Phrases* phrases = nullptr;  // of the reader's language; nullptr: English
  bool is_cut = true;  // false: paragraphs are wrapped at `width`, but lines keep their ends (a pipe, a file)

  // Columns after which a line is cut.
  int room() const { return is_cut ? width : 1000; }
  absl::string_view ellipsis() const { return utf8 ? "\u2026" : "..."; }
  absl::string_view arrow() const { return utf8 ? "\u2190" : "<-"; }
};

// What a piece of text is, not what it looks like.
enum class Tone : uint8_t { kPlain, kHeading, kAside, kGood, kWarning, kAlarm };

// Looks at the file descriptor and the environment (NO_COLOR, TERM, COLUMNS, LC_ALL, LC_CTYPE, LC_MESSAGES, LANG).
TextStyle DetectStyle(int fd);

// `text` in the colour of its tone; unchanged without colour. `text` must be free of control characters
// (EscapeControls).
std::string Paint(const TextStyle& style, Tone tone, absl::string_view text);

// `text` as it goes to a terminal, whoever wrote what is in it: lines, tabs and the colours of Paint stay; whatever
// else steers a terminal or misleads a reader (IsMisleading) becomes "\u001b", which JSON reads as the character again.
// The last guard behind EscapeControls and the JSON writer, for what forgot them.
std::string ForTerminal(absl::string_view text);

// Console: the two streams of a command. Answers go to standard output, everything else to standard error. Not
// thread-safe.
class Console {
 public:
  Console();

  const TextStyle& out_style() const { return out_style_; }

  // From here on, whatever the environment says: "en" or "zh".
  void SetLanguage(absl::string_view language);
  // `text` in the reader's language, line by line.
  std::string InWords(absl::string_view text) const;
  // Prints it so.
  void Say(absl::string_view text) { Print(InWords(text)); }

  // Writes all of `text` to standard output, control characters made visible (ForTerminal). A failure is complained
  // about once and remembered.
  void Print(absl::string_view text);
  // The same for the bytes of a file, which stay as they are; on a terminal they are shown as Print shows them.
  void PrintFile(absl::string_view bytes);
  bool print_failed() const { return print_failed_; }

  // Until it is called with nullptr, what is printed is appended to `text` instead; and of what is complained about
  // meanwhile, now or at an earlier time, each sentence is written once.
  void Capture(std::string* text) { captured_ = text; }

  // Complained about when the answer is out (EndAnswer), where one of `signs` is in it: what one answer lacks another
  // one may not. "" as a sign is in every answer. A sentence is said once.
  void ComplainLater(const std::string& sentence, const std::vector<std::string>& signs);
  void EndAnswer();

  // "gpumemshim: what, where. Next step." on standard error, control characters made visible.
  void Complain(absl::string_view sentence);

  // A line that overwrites itself, on a terminal only and not before half a second has gone. Done clears it.
  void Progress(absl::string_view what, uint64_t done, uint64_t all);
  // The same where nobody knows how much there is to do: what, and for how long by now.
  void Working(absl::string_view what);
  void ProgressDone();

 private:
  void WriteOut(absl::string_view bytes);

  TextStyle out_style_, error_style_;
  std::string* captured_ = nullptr;
  std::set<std::string> complaints_;  // while capturing
  struct Later {
    std::string sentence;
    std::vector<std::string> signs;
    bool is_due = false;
  };
  std::vector<Later> later_;
  bool print_failed_ = false;
  bool progress_shown_ = false;
  uint64_t started_ns_ = 0;
  uint64_t shown_ns_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_CONSOLE_H_
