// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/console.h"

#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/file_output.h"
#include "base/json_writer.h"
#include "base/phrases.h"
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
  style.phrases = Phrases::OfEnvironment();
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

namespace {

constexpr uint64_t kFirstProgressNs = 500'000'000, kNextProgressNs = 100'000'000;

uint64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

Console::Console()
    : out_style_(DetectStyle(STDOUT_FILENO)), error_style_(DetectStyle(STDERR_FILENO)), started_ns_(NowNs()) {}

void Console::SetLanguage(absl::string_view language) {
  const Phrases* const phrases = Phrases::Of(language);
  for (TextStyle* const style : {&out_style_, &error_style_}) {
    style->phrases = phrases;
    style->utf8 |= phrases != nullptr;
  }
}

std::string Console::InWords(absl::string_view text) const {
  return out_style_.phrases == nullptr ? std::string(text) : out_style_.phrases->InLines(text);
}

void Console::Print(absl::string_view text) { WriteOut(ForTerminal(text)); }

void Console::PrintFile(absl::string_view bytes) { out_style_.terminal ? Print(bytes) : WriteOut(bytes); }

void Console::WriteOut(absl::string_view bytes) {
  for (Later& later : later_) {
    const auto is_in = [&](const std::string& sign) { return absl::StrContains(bytes, sign); };
    later.is_due |= std::any_of(later.signs.begin(), later.signs.end(), is_in);
  }
  if (captured_ != nullptr) captured_->append(bytes.data(), bytes.size());
  if (print_failed_ || captured_ != nullptr) return;
  ProgressDone();
  if (WriteAll(STDOUT_FILENO, bytes)) return;
  print_failed_ = true;
  Complain(absl::StrCat("cannot write to standard output: ", strerror(errno), ". Give it a place with room."));
}

void Console::ComplainLater(const std::string& sentence, const std::vector<std::string>& signs) {
  const auto is_same = [&](const Later& later) { return later.sentence == sentence; };
  if (std::none_of(later_.begin(), later_.end(), is_same)) later_.push_back({sentence, signs});
}

void Console::EndAnswer() {
  for (const Later& later : std::exchange(later_, {})) {
    if (later.is_due) Complain(later.sentence);
  }
}

void Console::Complain(absl::string_view sentence) {
  ProgressDone();
  if (captured_ != nullptr && !complaints_.emplace(sentence).second) return;
  const std::string safe = EscapeControls(gpumem::InWords(error_style_.phrases, sentence), !error_style_.utf8);
  WriteAll(STDERR_FILENO, absl::StrCat(Paint(error_style_, Tone::kAlarm, "gpumemshim:"), " ", safe, "\n"));
}

void Console::Progress(absl::string_view what, uint64_t done, uint64_t all) {
  if (!error_style_.terminal || all == 0) return;
  const uint64_t now = NowNs();
  if (now - started_ns_ < kFirstProgressNs || now - shown_ns_ < kNextProgressNs) return;
  shown_ns_ = now;
  progress_shown_ = true;
  const uint64_t percent =
      done >= all ? 100 : static_cast<uint64_t>(100.0 * static_cast<double>(done) / static_cast<double>(all));
  WriteAll(STDERR_FILENO, absl::StrCat("\r", EscapeControls(InWords(what)), " ", percent, " % \033[K"));
}

void Console::Working(absl::string_view what) {
  const uint64_t now = NowNs();
  if (!error_style_.terminal || now - started_ns_ < kFirstProgressNs || now - shown_ns_ < kNextProgressNs) return;
  shown_ns_ = now;
  progress_shown_ = true;
  WriteAll(STDERR_FILENO,
           absl::StrCat("\r", EscapeControls(InWords(what)), ", ", (now - started_ns_) / 1'000'000'000, " s \033[K"));
}

void Console::ProgressDone() {
  if (!progress_shown_) return;
  progress_shown_ = false;
  WriteAll(STDERR_FILENO, "\r\033[K");
}

}  // namespace gpumem
