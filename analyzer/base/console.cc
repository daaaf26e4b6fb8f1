// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/console.h"

#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/file_output.h"
#include "base/utf8.h"

namespace gpumem {
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

void Console::Print(absl::string_view text) { WriteOut(ForTerminal(text)); }

void Console::PrintFile(absl::string_view bytes) { out_style_.terminal ? Print(bytes) : WriteOut(bytes); }

void Console::WriteOut(absl::string_view bytes) {
  if (captured_ != nullptr) captured_->append(bytes.data(), bytes.size());
  if (print_failed_ || captured_ != nullptr) return;
  ProgressDone();
  if (WriteAll(STDOUT_FILENO, bytes)) return;
  print_failed_ = true;
  Complain(absl::StrCat("cannot write to standard output: ", strerror(errno), ". Give it a place with room."));
}

void Console::Complain(absl::string_view sentence) {
  ProgressDone();
  if (captured_ != nullptr && !complaints_.emplace(sentence).second) return;
  const std::string safe = EscapeControls(sentence, !error_style_.utf8);
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
  WriteAll(STDERR_FILENO, absl::StrCat("\r", EscapeControls(what), " ", percent, " % \033[K"));
}

void Console::Working(absl::string_view what) {
  const uint64_t now = NowNs();
  if (!error_style_.terminal || now - started_ns_ < kFirstProgressNs || now - shown_ns_ < kNextProgressNs) return;
  shown_ns_ = now;
  progress_shown_ = true;
  WriteAll(STDERR_FILENO,
           absl::StrCat("\r", EscapeControls(what), ", ", (now - started_ns_) / 1'000'000'000, " s \033[K"));
}

void Console::ProgressDone() {
  if (!progress_shown_) return;
  progress_shown_ = false;
  WriteAll(STDERR_FILENO, "\r\033[K");
}

}  // namespace gpumem
