// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Console: the two streams of a command. Answers go to standard output, everything else to standard error. Not
// thread-safe.

#ifndef GPUMEM_ANALYZER_BASE_CONSOLE_H_
#define GPUMEM_ANALYZER_BASE_CONSOLE_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "base/terminal.h"

namespace gpumem {

class Console {
 public:
  Console();

  const TextStyle& out_style() const { return out_style_; }

  // Writes all of `text` to standard output, control characters made visible (ForTerminal). A failure is complained
  // about once and remembered.
  void Print(absl::string_view text);
  // The same for the bytes of a file, which stay as they are; on a terminal they are shown as Print shows them.
  void PrintFile(absl::string_view bytes);
  bool print_failed() const { return print_failed_; }

  // Until it is called with nullptr, what is printed is appended to `text` instead; and of what is complained about
  // meanwhile, now or at an earlier time, each sentence is written once.
  void Capture(std::string* text) { captured_ = text; }

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
  bool print_failed_ = false;
  bool progress_shown_ = false;
  uint64_t started_ns_ = 0;
  uint64_t shown_ns_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_CONSOLE_H_
