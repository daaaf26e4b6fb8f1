// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Text without a call: what dlsym's stub and the look-ups behind it use in place of strcmp, strlen and memcpy. Those
// are found by name, and the runtimes of sanitizers define them: they look up the functions that stand behind them by
// dlsym, which is ours, before they can be called themselves.
//
// Files that include this are compiled so that no loop becomes a call either (gpumem_no_library_calls in
// shim/base/CMakeLists.txt), and scripts/check_lookups reads the result.
//
// Thread-safety: pure functions. Failure: none.
//
//   if (plain::StartsWith(plain::FileName(path), "libc.so.6")) ...

#ifndef GPUMEM_SHIM_BASE_PLAIN_TEXT_H_
#define GPUMEM_SHIM_BASE_PLAIN_TEXT_H_

#include <cstddef>

namespace gpumemshim::plain {

constexpr bool Equal(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return *a == *b;
}

constexpr bool StartsWith(const char* text, const char* prefix) {
  if (text == nullptr) return false;
  while (*prefix != '\0' && *text == *prefix) ++text, ++prefix;
  return *prefix == '\0';
}

// What follows the last slash; nullptr for nullptr.
constexpr const char* FileName(const char* path) {
  const char* name = path;
  for (; path != nullptr && *path != '\0'; ++path) {
    if (*path == '/') name = path + 1;
  }
  return name;
}

constexpr size_t Length(const char* text) {
  size_t length = 0;
  while (text[length] != '\0') ++length;
  return length;
}

// All of `text`, or nothing where there is no room for it.
constexpr bool Copy(const char* text, char* out, size_t capacity) {
  const size_t length = Length(text);
  if (length >= capacity) return false;
  for (size_t i = 0; i <= length; ++i) out[i] = text[i];
  return true;
}

}  // namespace gpumemshim::plain

#endif  // GPUMEM_SHIM_BASE_PLAIN_TEXT_H_
