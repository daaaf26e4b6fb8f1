// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/base/note.h"

#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "simcuda/base/environment.h"

namespace simcuda {

void NoteUnsupported(const char* library, const char* function, std::atomic<bool>* reported) {
  if (!GetEnvironment().verbose || reported->exchange(true, std::memory_order_relaxed)) return;
  PrintLine("%s: %s is not simulated, returns 801", library, function);
}

void PrintLine(const char* format, ...) {
  char line[512] = "simcuda: ";
  constexpr int kPrefix = 9;
  std::va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(line + kPrefix, sizeof line - kPrefix - 1, format, arguments);
  va_end(arguments);
  const int end = kPrefix + std::min<int>(std::max(length, 0), static_cast<int>(sizeof line) - kPrefix - 2);
  line[end] = '\n';
  if (::write(STDERR_FILENO, line, static_cast<size_t>(end) + 1) < 0) return;  // nobody listens
}

}  // namespace simcuda
