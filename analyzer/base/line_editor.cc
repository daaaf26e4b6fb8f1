// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/line_editor.h"

#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/console.h"
#include "base/file_output.h"
#include "base/output_file.h"
#include "base/utf8.h"

namespace gpumem {
namespace {

constexpr char kControlA = 1, kControlB = 2, kControlC = 3, kControlD = 4, kControlE = 5, kControlF = 6, kBackspace = 8,
               kControlK = 11, kControlN = 14, kControlP = 16, kControlU = 21, kControlW = 23, kEscape = 27,
               kDelete = 127;

bool IsContinuation(char byte) { return (byte & 0xc0) == 0x80; }

// The terminal hands over every key as long as this lives. Output keeps its usual processing.
class RawTerminal {
 public:
  explicit RawTerminal(int descriptor) : descriptor_(descriptor) {
    is_set_ = tcgetattr(descriptor, &before_) == 0;
    if (!is_set_) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    raw.c_iflag &= ~static_cast<tcflag_t>(IXON);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(descriptor, TCSADRAIN, &raw);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  ~RawTerminal() {
    if (is_set_) tcsetattr(descriptor_, TCSADRAIN, &before_);
  }

 private:
  int descriptor_;
  termios before_{};
  bool is_set_ = false;
};

bool ReadByte(int descriptor, char* byte) {
  ssize_t got = 0;
  while ((got = read(descriptor, byte, 1)) < 0 && errno == EINTR) {
  }
  return got == 1;
}

}  // namespace

void EditLine::Left() {
  while (cursor_ > 0 && IsContinuation(text_[--cursor_])) {
  }
}

void EditLine::Right() {
  if (cursor_ < text_.size()) ++cursor_;
  while (cursor_ < text_.size() && IsContinuation(text_[cursor_])) ++cursor_;
}

void EditLine::EraseBefore() {
  const size_t end = cursor_;
  Left();
  text_.erase(cursor_, end - cursor_);
}

void EditLine::EraseWord() {
  const size_t end = cursor_;
  while (cursor_ > 0 && text_[cursor_ - 1] == ' ') --cursor_;
  while (cursor_ > 0 && text_[cursor_ - 1] != ' ') --cursor_;
  text_.erase(cursor_, end - cursor_);
}

void EditLine::Show(size_t entry) {
  if (entry > history_->size()) return;
  if (shown_ == history_->size()) new_line_ = text_;
  shown_ = entry;
  text_ = entry == history_->size() ? new_line_ : (*history_)[entry];
  cursor_ = text_.size();
}

void EditLine::Insert(char byte) {
  if (static_cast<unsigned char>(byte) < 32 && byte != '\t') return;
  text_.insert(cursor_++, 1, byte == '\t' ? ' ' : byte);
}

// Of "\033[A", "\033OA", "\033[3~".
void EditLine::Escape(char byte) {
  escape_ += byte;
  const bool is_introduced = escape_.size() == 2 && (byte == '[' || byte == 'O');
  const bool goes_on = escape_.size() > 2 && ((byte >= '0' && byte <= '9') || byte == ';');
  if ((is_introduced || goes_on) && escape_.size() < 16) return;
  const std::string sequence = std::exchange(escape_, "");
  if (sequence.size() < 3) return;
  if (byte == 'A' && shown_ > 0) Show(shown_ - 1);
  if (byte == 'B') Show(shown_ + 1);
  if (byte == 'C') Right();
  if (byte == 'D') Left();
  const std::string number = sequence.substr(2, sequence.size() - 3);
  if (byte == 'H' || (byte == '~' && (number == "1" || number == "7"))) cursor_ = 0;
  if (byte == 'F' || (byte == '~' && (number == "4" || number == "8"))) cursor_ = text_.size();
  if (byte == '~' && number == "3" && cursor_ < text_.size()) {
    Right();
    EraseBefore();
  }
}

EditLine::State EditLine::Feed(char byte) {
  if (!escape_.empty()) {
    Escape(byte);
    return State::kTyping;
  }
  switch (byte) {
    case '\r':
    case '\n':
      return State::kDone;
    case kControlC:
      return State::kAbandoned;
    case kControlD:
      if (text_.empty()) return State::kEnd;
      if (cursor_ < text_.size()) {
        Right();
        EraseBefore();
      }
      break;
    case kEscape:
      escape_ = byte;
      break;
    case kControlA:
      cursor_ = 0;
      break;
    case kControlE:
      cursor_ = text_.size();
      break;
    case kControlB:
      Left();
      break;
    case kControlF:
      Right();
      break;
    case kControlP:
      if (shown_ > 0) Show(shown_ - 1);
      break;
    case kControlN:
      Show(shown_ + 1);
      break;
    case kBackspace:
    case kDelete:
      EraseBefore();
      break;
    case kControlK:
      text_.resize(cursor_);
      break;
    case kControlU:
      text_.erase(0, cursor_);
      cursor_ = 0;
      break;
    case kControlW:
      EraseWord();
      break;
    default:
      Insert(byte);
  }
  return State::kTyping;
}

LineEditor::LineEditor(int input, int output, std::string history_file)
    : input_(input), output_(output), history_file_(std::move(history_file)) {
  std::ifstream file(history_file_);
  for (std::string line; history_file_ != "" && std::getline(file, line);) history_.push_back(line);
}

void LineEditor::Remember(const std::string& line) {
  std::string one_line = line;
  std::replace(one_line.begin(), one_line.end(), '\n', ' ');
  if (one_line.empty() || (!history_.empty() && history_.back() == one_line)) return;
  history_.push_back(one_line);
  if (history_.size() > kMaxHistory) history_.erase(history_.begin());
  if (history_file_.empty()) return;
  std::string all;
  for (const std::string& each : history_) absl::StrAppend(&all, each, "\n");
  WriteOutput(history_file_, all).IgnoreError();  // a history that cannot be kept is no reason to fail
}

// The line in one row of the terminal: where it is longer, the part around the cursor.
void LineEditor::Draw(absl::string_view prompt, const EditLine& line) const {
  const int room = std::max(20, DetectStyle(output_).width - DisplayWidth(prompt) - 1);
  std::string before = EscapeControls(line.text().substr(0, line.cursor()));
  std::string after = EscapeControls(line.text().substr(line.cursor()));
  if (DisplayWidth(before) > room) before = TruncateStart(before, room, "<");
  after = TruncateEnd(after, room - DisplayWidth(before), "");
  std::string out = absl::StrCat("\r\033[K", prompt, before, after);
  if (const int back = DisplayWidth(after); back > 0) absl::StrAppend(&out, "\033[", back, "D");
  WriteAll(output_, out);
}

// Where input is not a terminal that can be set: as it comes.
std::optional<std::string> LineEditor::ReadPlain() {
  std::string line;
  char byte = 0;
  bool has_any = false;
  while (ReadByte(input_, &byte)) {
    has_any = true;
    if (byte == '\n') return line;
    line += byte;
  }
  if (!has_any) return std::nullopt;
  return line;
}

std::optional<std::string> LineEditor::Read(absl::string_view prompt) {
  if (isatty(input_) == 0) return ReadPlain();
  const RawTerminal raw(input_);
  EditLine line(&history_);
  Draw(prompt, line);
  char byte = 0;
  EditLine::State state = EditLine::State::kTyping;
  while (state == EditLine::State::kTyping) {
    state = ReadByte(input_, &byte) ? line.Feed(byte) : EditLine::State::kEnd;
    Draw(prompt, line);
  }
  WriteAll(output_, state == EditLine::State::kAbandoned ? "^C\n" : "\n");
  if (state == EditLine::State::kEnd) return std::nullopt;
  return state == EditLine::State::kAbandoned ? "" : line.text();
}

}  // namespace gpumem
