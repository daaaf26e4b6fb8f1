// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/python/failures.h"

#include <atomic>

namespace gpumemshim::python {
namespace {

constexpr size_t kMaxText = 160;

// Written once, before g_count leaves 0 (release).
char g_first[kMaxText];
std::atomic<uint32_t> g_count{0};
std::atomic<bool> g_is_off{false};

size_t Append(char* out, size_t capacity, size_t at, const char* text) {
  while (*text != '\0' && at + 1 < capacity) out[at++] = *text++;
  out[at] = '\0';
  return at;
}

}  // namespace

void AddFailure(const char* text, size_t size, bool is_last) {
  const uint32_t before = g_count.load(std::memory_order_relaxed);
  if (before == 0) {
    size_t length = 0;
    // One line of what can be printed.
    for (; length < size && length + 1 < kMaxText; ++length) {
      const auto c = static_cast<unsigned char>(text[length]);
      g_first[length] = c < 0x20 || c == 0x7F ? ' ' : text[length];
    }
    // Not within a character of UTF-8.
    if (length < size)
      while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
    g_first[length] = '\0';
  }
  if (is_last) g_is_off.store(true, std::memory_order_relaxed);
  g_count.store(before + 1, std::memory_order_release);
}

uint32_t CountFailures() { return g_count.load(std::memory_order_acquire); }

bool DescribeFailures(char* out, size_t capacity) {
  const uint32_t count = CountFailures();
  if (count == 0 || capacity == 0) return false;
  size_t at = Append(out, capacity, 0, g_first);
  char digits[] = {'0', '0', '\0'};
  const uint32_t shown = count < 99 ? count : 99;
  digits[0] = static_cast<char>('0' + shown / 10);
  digits[1] = static_cast<char>('0' + shown % 10);
  if (count > 1) {
    at = Append(out, capacity, at, " (");
    at = Append(out, capacity, at, shown < 10 ? digits + 1 : digits);
    Append(out, capacity, at, g_is_off.load(std::memory_order_relaxed) ? " times; switched off)" : " times)");
  }
  return true;
}

}  // namespace gpumemshim::python
