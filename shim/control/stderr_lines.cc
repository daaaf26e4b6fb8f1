// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/stderr_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "shim/base/kernel.h"
#include "shim/settings/text.h"

namespace gpumemshim::control {
namespace {

constexpr int kWaitMs = 100;

// What a shell hands down is not closed by exec, and is not a directory, block device or file that can be read as well.
bool LooksLikeStderr() {
  const int flags = fcntl(STDERR_FILENO, F_GETFL), descriptor_flags = fcntl(STDERR_FILENO, F_GETFD);
  struct stat status;
  if (flags < 0 || descriptor_flags < 0 || (descriptor_flags & FD_CLOEXEC) != 0) return false;
  if (kernel::Fstat(STDERR_FILENO, &status) != 0) return false;
  const bool writes_only = (flags & O_ACCMODE) == O_WRONLY;
  return S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) ||
         (S_ISREG(status.st_mode) && (writes_only || (flags & O_APPEND) != 0));
}

// A pipe that nobody empties would hold the program's end up.
bool HasRoom() {
  pollfd stream = {STDERR_FILENO, POLLOUT, 0};
  return poll(&stream, 1, kWaitMs) != 0;  // an error says nothing: `ulimit -n 0` is one
}

bool IsPending(int signal) {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, signal) == 1;
}

}  // namespace

namespace {
std::atomic<LogLevel> g_level{LogLevel::kInfo};
}

void SetLogLevel(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }

LogLevel GetLogLevel() { return g_level.load(std::memory_order_relaxed); }

void WriteLine(const char* line, size_t size) {
  if (size == 0) return;
  const int saved = errno;
  sigset_t ours, before;
  sigemptyset(&ours);
  sigaddset(&ours, SIGPIPE);
  sigaddset(&ours, SIGXFSZ);
  sigset_t blocked = ours;
  sigaddset(&blocked, SIGTTOU);  // blocked, it does not stop a background process that writes to its terminal
  const bool had_pipe = IsPending(SIGPIPE), had_size = IsPending(SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  if (LooksLikeStderr() && HasRoom() && write(STDERR_FILENO, line, size) < 0) {
    // Takes back what this write raised, and nothing that was there before.
    if (had_pipe) sigdelset(&ours, SIGPIPE);
    if (had_size) sigdelset(&ours, SIGXFSZ);
    const timespec now = {0, 0};
    while (sigtimedwait(&ours, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = saved;
}

namespace {

// The part of `path` behind `directory`, or nullptr where it lies elsewhere.
const char* InsideOf(const char* path, const char* directory) {
  const size_t size = std::strlen(directory);
  if (size == 0 || std::strncmp(path, directory, size) != 0) return nullptr;
  if (directory[size - 1] == '/') return path + size;
  return path[size] == '/' ? path + size + 1 : nullptr;
}

bool IsHexDigit(char c) { return c != '\0' && std::strchr("0123456789abcdefABCDEF", c) != nullptr; }

bool NeedsQuotes(const char* path) { return std::strpbrk(path, " \t'\"$&;()<>|*?`\\") != nullptr; }

// As bash and zsh read it: what is not printable by its number, so that the command works and the terminal shows it.
void AddEscaped(const char* path, Text* text) {
  constexpr char kDigits[] = "0123456789abcdef";
  text->Add("$'");
  while (*path != '\0') {
    size_t size = PrintableSize(path);
    if (size == 0) {
      const auto byte = static_cast<unsigned char>(*path);
      text->Add("\\x").Add(kDigits[byte >> 4]).Add(kDigits[byte & 15]);
      // A digit that follows would be read as part of the number.
      if (IsHexDigit(path[1])) text->Add("'$'");
      size = 1;
    } else {
      if (*path == '\'' || *path == '\\') text->Add('\\');
      text->Add(path, size);
    }
    path += size;
  }
  text->Add('\'');
}

constexpr char kTraceEnding[] = ".gmtrace", kPart[] = ".part";

// Bytes of "run" in "run.part12.gmtrace"; 0 where it is no later file of a series. A series is read whole by the name
// that was given, which its oldest file had.
size_t StemOfPart(const char* path) {
  const size_t size = std::strlen(path), ending = sizeof kTraceEnding - 1, part = sizeof kPart - 1;
  if (size <= ending || std::strcmp(path + size - ending, kTraceEnding) != 0) return 0;
  size_t digits = size - ending;
  while (digits > 0 && path[digits - 1] >= '0' && path[digits - 1] <= '9') --digits;
  const bool is_part = digits < size - ending && digits > part && std::strncmp(path + digits - part, kPart, part) == 0;
  return is_part ? digits - part : 0;
}

void AddCommand(const char* command, const char* path, Text* text) {
  text->Add(" Next: gpumemshim ").Add(command).Add(' ');
  if (!IsPrintable(path)) return AddEscaped(path, text);
  const bool quotes = NeedsQuotes(path) && std::strchr(path, '\'') == nullptr;
  if (quotes) text->Add('\'');
  if (const size_t stem = StemOfPart(path); stem != 0) {
    text->Add(path, stem).Add(kTraceEnding);
  } else {
    text->Add(path);
  }
  if (quotes) text->Add('\'');
}

}  // namespace

size_t SummaryLine(const writer::Summary& summary, const SummaryLineFacts& facts, char* out, size_t capacity) {
  Text text(out, capacity);
  if (summary.timed_out) {
    text.Add("gpumemshim: the trace's file system did not take its end within 2 s: ").AddGrouped(summary.events);
    text.Add(" events are in ").AddPrintable(summary.path[0] != '\0' ? summary.path : "no file");
    text.Add(", later ones, as far as there was room, in its ring on this host.");
    if (summary.path[0] != '\0') AddCommand("report", summary.path, &text);
    text.Add('\n');
    return text.size();
  }
  const uint64_t lost = summary.dropped_allocs + summary.dropped_frees + summary.unwritten_events;
  if (!summary.opened) {
    if (lost == 0 && summary.error[0] == '\0') return 0;
    text.Add("gpumemshim: no trace written, ").AddGrouped(lost).Add(" events lost");
    if (summary.error[0] != '\0') text.Add(": ").AddPrintable(summary.error);
    text.Add('\n');
    return text.size();
  }
  text.Add("gpumemshim: ").AddGrouped(summary.events).Add(summary.events == 1 ? " event (" : " events (");
  text.AddGrouped(summary.torch_events).Add(" torch, ");
  text.AddGrouped(summary.runtime_events).Add(" runtime, ");
  text.AddGrouped(summary.driver_events).Add(" driver), ");
  text.AddGrouped(lost).Add(" lost");
  if (summary.error[0] != '\0') text.Add(" (").AddPrintable(summary.error).Add(')');
  if (!summary.complete) text.Add(", end missing");
  if (facts.failed_callbacks != 0) {
    text.Add(", ")
        .AddGrouped(facts.failed_callbacks)
        .Add(" forecast callback")
        .Add(facts.failed_callbacks == 1 ? "" : "s")
        .Add(" failed");
  }
  const bool is_kept = facts.summary_file[0] == '\0';
  const char* path = is_kept ? summary.path : facts.summary_file;
  const char* inside = InsideOf(path, facts.directory);
  text.Add(is_kept ? ", in " : "; only their summary is kept, in ");
  if (inside != nullptr) text.Add("./");
  text.AddPrintable(inside != nullptr ? inside : path);
  if (is_kept) text.Add(" (").AddBytes(summary.file_bytes).Add(')');
  text.Add('.');
  AddCommand(is_kept ? "report" : "ranks", inside != nullptr ? inside : path, &text);
  text.Add('\n');
  if (text.overflowed() && text.size() > 0) out[text.size() - 1] = '\n';  // a path of thousands of control characters
  return text.size();
}

size_t WarningLine(const sampler::Crossing& crossing, char* out, size_t capacity) {
  Text line(out, capacity);
  line.Add("gpumemshim: GPU ").Add(static_cast<uint64_t>(crossing.device));
  if (crossing.total != 0) {
    line.Add(" is ").Add(crossing.used * 100 / crossing.total).Add(" % full (");
  } else {
    line.Add(" is filling up (");
  }
  line.AddBytes(crossing.used);
  if (crossing.total != 0) line.Add(" of ").AddBytes(crossing.total);
  if (crossing.own != sampler::kUnknown) line.Add(", ").AddBytes(crossing.own).Add(" by this process");
  line.Add("): reached ");
  if (crossing.percent != 0) {
    line.Add(uint64_t{crossing.percent}).Add(" %");
  } else {
    line.AddBytes(crossing.bytes);
  }
  line.Add('\n');
  return line.size();
}

}  // namespace gpumemshim::control
