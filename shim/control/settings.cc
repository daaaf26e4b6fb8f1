// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/settings.h"

#include <strings.h>

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace gpumemshim::control {
namespace {

void Copy(char* out, size_t capacity, const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return;
  const size_t length = std::strlen(value);
  if (length < capacity) std::memcpy(out, value, length + 1);
}

stack::Unwinder ReadUnwinder() {
  const char* value = std::getenv("GPUMEMSHIM_NATIVE");
  if (value != nullptr && strcasecmp(value, "libgcc") == 0) return stack::Unwinder::kLibgcc;
  if (value != nullptr && strcasecmp(value, "libunwind") == 0) return stack::Unwinder::kLibunwind;
  return ParseSwitch(value, true) ? stack::Unwinder::kLibunwind : stack::Unwinder::kNone;
}

}  // namespace

uint64_t ParseSize(const char* text) {
  if (text == nullptr || *text < '0' || *text > '9') return 0;
  uint64_t value = 0;
  for (; *text >= '0' && *text <= '9'; ++text) {
    if (value > (uint64_t{1} << 50)) return 0;
    value = value * 10 + static_cast<uint64_t>(*text - '0');
  }
  int shift = 0;
  switch (*text) {
    case 'k':
    case 'K':
      shift = 10;
      break;
    case 'm':
    case 'M':
      shift = 20;
      break;
    case 'g':
    case 'G':
      shift = 30;
      break;
    default:
      break;
  }
  if (shift > 0) ++text;
  if (shift > 0 && *text == 'i') ++text;
  if (*text == 'B' || *text == 'b') ++text;
  if (*text != '\0' || value > (uint64_t{1} << 60 >> shift)) return 0;
  return value << shift;
}

uint32_t ParseMilliseconds(const char* text, uint32_t otherwise) {
  constexpr uint32_t kDay = 86'400'000;
  if (text == nullptr || *text == '\0') return otherwise;
  uint32_t value = 0;
  for (; *text >= '0' && *text <= '9' && value <= kDay; ++text) value = value * 10 + static_cast<uint32_t>(*text - '0');
  return *text != '\0' || value > kDay ? otherwise : value;
}

bool ParseSwitch(const char* text, bool otherwise) {
  if (text == nullptr || *text == '\0') return otherwise;
  for (const char* yes : {"1", "true", "yes", "on"}) {
    if (strcasecmp(text, yes) == 0) return true;
  }
  return false;
}

Settings ReadSettings() {
  Settings settings;
  Copy(settings.output, sizeof settings.output, "GPUMEMSHIM_OUTPUT");
  settings.quiet = ParseSwitch(std::getenv("GPUMEMSHIM_QUIET"), false);
  settings.disabled = ParseSwitch(std::getenv("GPUMEMSHIM_DISABLE"), false);
  settings.native = ReadUnwinder();
  settings.python = ParseSwitch(std::getenv("GPUMEMSHIM_PYTHON"), true);
  settings.oom_report = ParseSwitch(std::getenv("GPUMEMSHIM_OOM_REPORT"), false);
  settings.ring_size_bytes = ParseSize(std::getenv("GPUMEMSHIM_RING_SIZE"));
  Copy(settings.ring_directory, sizeof settings.ring_directory, "GPUMEMSHIM_RING_DIRECTORY");
  if (std::strcmp(settings.ring_directory, "none") == 0) settings.ring_directory[0] = '\0';
  settings.sample_ms = ParseMilliseconds(std::getenv("GPUMEMSHIM_SAMPLE_MS"), settings.sample_ms);
  Copy(settings.warn_at, sizeof settings.warn_at, "GPUMEMSHIM_WARN_AT");
  return settings;
}

}  // namespace gpumemshim::control
