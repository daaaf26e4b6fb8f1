// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/summary_line.h"

#include <cstring>

#include "shim/settings/text.h"

namespace gpumemshim::control {
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

void AddCommand(const char* command, const char* path, Text* text) {
  text->Add(" Next: gpumemshim ").Add(command).Add(' ');
  if (!IsPrintable(path)) return AddEscaped(path, text);
  const bool quotes = NeedsQuotes(path) && std::strchr(path, '\'') == nullptr;
  if (quotes) text->Add('\'');
  text->Add(path);
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

}  // namespace gpumemshim::control
