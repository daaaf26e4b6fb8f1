// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LineEditor: a line from the terminal, with the usual keys (arrows, Home, End, Ctrl-A, E, K, U, W) and a history that
// is kept in a file of the user's own. EditLine, which keys change, knows no terminal. Not thread-safe.
//
//   LineEditor editor(STDIN_FILENO, STDOUT_FILENO, folder + "/sql_history");
//   while (const std::optional<std::string> line = editor.Read("sql> ")) Use(*line);

#ifndef GPUMEM_ANALYZER_BASE_LINE_EDITOR_H_
#define GPUMEM_ANALYZER_BASE_LINE_EDITOR_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpumem {

// What is typed so far, and what keys make of it.
class EditLine {
 public:
  enum class State { kTyping, kDone, kAbandoned, kEnd };

  explicit EditLine(const std::vector<std::string>* history) : history_(history), shown_(history->size()) {}

  // One byte from the terminal; escape sequences come byte by byte.
  State Feed(char byte);
  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }  // in bytes

 private:
  void Escape(char byte);
  void Insert(char byte);
  void Left();
  void Right();
  void EraseBefore();
  void EraseWord();
  void Show(size_t entry);

  const std::vector<std::string>* history_;
  size_t shown_;  // entry of the history; its size: the new line
  std::string new_line_, text_;
  size_t cursor_ = 0;
  std::string escape_;  // the sequence so far, "" = in none
};

class LineEditor {
 public:
  static constexpr size_t kMaxHistory = 1000;

  // `history_file` "" = none is kept.
  LineEditor(int input, int output, std::string history_file);

  // Without the line end; nothing at the end of input. Ctrl-C gives the empty line.
  std::optional<std::string> Read(absl::string_view prompt);
  void Remember(const std::string& line);

 private:
  std::optional<std::string> ReadPlain();
  void Draw(absl::string_view prompt, const EditLine& line) const;

  int input_, output_;
  std::string history_file_;
  std::vector<std::string> history_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_LINE_EDITOR_H_
