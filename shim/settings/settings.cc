// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/settings/settings.h"

#include <signal.h>
#include <string.h>
#include <strings.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "shim/settings/text.h"

namespace gpumemshim::control {
namespace {

void Copy(char* out, size_t capacity, const char* name) {
  const char* value = SettingOf(name);
  if (value == nullptr) return;
  const size_t length = std::strlen(value);
  if (length < capacity) std::memcpy(out, value, length + 1);
}

bool IsOneOf(const char* value, std::initializer_list<const char*> words) {
  for (const char* word : words) {
    if (value != nullptr && strcasecmp(value, word) == 0) return true;
  }
  return false;
}

bool IsNo(const char* value) { return IsOneOf(value, {"0", "none", "off", "no", "false"}); }

stack::Unwinder ReadUnwinder() {
  const char* value = SettingOf("GPUMEMSHIM_UNWINDER");
  if (IsNo(value) || IsNo(SettingOf("GPUMEMSHIM_NATIVE"))) return stack::Unwinder::kNone;
  if (IsOneOf(value, {"libgcc"})) return stack::Unwinder::kLibgcc;
  if (IsOneOf(value, {"fp"})) return stack::Unwinder::kFramePointers;
  return stack::Unwinder::kLibunwind;
}

stack::NativeDepth ReadNativeDepth() {
  return IsOneOf(SettingOf("GPUMEMSHIM_NATIVE"), {"full"}) ? stack::NativeDepth::kFull : stack::NativeDepth::kCut;
}

// A switch, or the directory that the socket is to lie in.
void ReadControl(Settings* settings) {
  const char* value = SettingOf("GPUMEMSHIM_CONTROL");
  if (value != nullptr && value[0] == '/') {
    Copy(settings->control_directory, sizeof settings->control_directory, "GPUMEMSHIM_CONTROL");
  } else {
    settings->control = ParseSwitch(value, true);
  }
}

bool HasForecastCallback() {
  for (const char* name : {"GPUMEMSHIM_FORECAST_EXEC", "GPUMEMSHIM_FORECAST_WEBHOOK", "GPUMEMSHIM_FORECAST_SIGNAL"}) {
    const char* value = SettingOf(name);
    if (value != nullptr && value[0] != '\0') return true;
  }
  return false;
}

writer::SizeLimit ReadSizeLimit() {
  writer::SizeLimit limit;
  limit.max_bytes = ParseSize(SettingOf("GPUMEMSHIM_MAX_SIZE"));
  const char* value = SettingOf("GPUMEMSHIM_ON_FULL");
  if (value != nullptr && strcasecmp(value, "rotate") == 0) limit.on_full = writer::OnFull::kRotate;
  if (value != nullptr && strcasecmp(value, "stop") == 0) limit.on_full = writer::OnFull::kStop;
  return limit;
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

uint32_t ParseInterval(const char* text) {
  constexpr uint64_t kWeekMs = 604'800'000;
  if (text == nullptr || *text < '0' || *text > '9') return 0;
  uint64_t value = 0;
  for (; *text >= '0' && *text <= '9' && value <= kWeekMs; ++text)
    value = value * 10 + static_cast<uint64_t>(*text - '0');
  const uint64_t unit_ms = *text == 's' ? 1'000 : *text == 'm' ? 60'000 : *text == 'h' ? 3'600'000 : 0;
  if (unit_ms == 0 || text[1] != '\0' || value * unit_ms > kWeekMs) return 0;
  return static_cast<uint32_t>(value * unit_ms);
}

namespace {

constexpr const char* kLogLevels[] = {"off", "error", "warning", "info", "debug"};

// The older switch holds where no level is given.
LogLevel ReadLogLevel() {
  const bool is_quiet = ParseSwitch(SettingOf("GPUMEMSHIM_QUIET"), false);
  return ParseLogLevel(SettingOf("GPUMEMSHIM_LOG"), is_quiet ? LogLevel::kOff : LogLevel::kInfo);
}

}  // namespace

LogLevel ParseLogLevel(const char* text, LogLevel otherwise) {
  for (size_t i = 0; text != nullptr && i < sizeof kLogLevels / sizeof *kLogLevels; ++i) {
    if (strcasecmp(text, kLogLevels[i]) == 0) return static_cast<LogLevel>(i);
  }
  return otherwise;
}

const char* LogLevelName(LogLevel level) { return kLogLevels[static_cast<size_t>(level)]; }

int ParseSignal(const char* text) {
  if (text == nullptr) return 0;
  if (strncasecmp(text, "SIG", 3) == 0) text += 3;
  if (strcasecmp(text, "USR1") == 0) return SIGUSR1;
  if (strcasecmp(text, "USR2") == 0) return SIGUSR2;
  int number = 0;
  const bool real_time = strncasecmp(text, "RTMIN", 5) == 0;
  if (real_time) text += text[5] == '+' ? 6 : 5;
  if (*text == '\0') return real_time ? SIGRTMIN : 0;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9' || number > 100) return 0;
    number = number * 10 + (*text - '0');
  }
  if (real_time) number += SIGRTMIN;
  return number == SIGUSR1 || number == SIGUSR2 || (number >= SIGRTMIN && number <= SIGRTMAX) ? number : 0;
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
  Copy(settings.fallback, sizeof settings.fallback, "TMPDIR");
  settings.log = ReadLogLevel();
  settings.status_ms = ParseInterval(SettingOf("GPUMEMSHIM_STATUS"));
  settings.disabled = ParseSwitch(SettingOf("GPUMEMSHIM_DISABLE"), false);
  settings.dormant = !ParseSwitch(SettingOf("GPUMEMSHIM_START"), true);
  ReadControl(&settings);
  settings.eval = ParseSwitch(SettingOf("GPUMEMSHIM_EVAL"), false);
  settings.signal = ParseSignal(SettingOf("GPUMEMSHIM_SIGNAL"));
  settings.unwinder = ReadUnwinder();
  settings.native = ReadNativeDepth();
  settings.python = ParseSwitch(SettingOf("GPUMEMSHIM_PYTHON"), true);
  settings.helper = settings.python && ParseSwitch(SettingOf("GPUMEMSHIM_HELPER"), true);
  settings.owners_ms = ParseMilliseconds(SettingOf("GPUMEMSHIM_OWNERS_MS"), settings.owners_ms);
  Copy(settings.injected_script, sizeof settings.injected_script, "GPUMEMSHIM_INJECTED_SCRIPT");
  settings.free_stacks = ParseSwitch(SettingOf("GPUMEMSHIM_FREE_STACKS"), false);
  settings.autograd = settings.python && ParseSwitch(SettingOf("GPUMEMSHIM_AUTOGRAD"), true);
  settings.oom_report = ParseSwitch(SettingOf("GPUMEMSHIM_OOM_REPORT"), false);
  settings.forecast = ParseSwitch(SettingOf("GPUMEMSHIM_FORECAST"), HasForecastCallback());
  settings.ring_size_bytes = ParseSize(SettingOf("GPUMEMSHIM_RING_SIZE"));
  settings.ring_wait_ms = ParseMilliseconds(SettingOf("GPUMEMSHIM_RING_WAIT_MS"), 0);
  Copy(settings.ring_directory, sizeof settings.ring_directory, "GPUMEMSHIM_RING_DIRECTORY");
  if (std::strcmp(settings.ring_directory, "none") == 0) settings.ring_directory[0] = '\0';
  const char* cupti = SettingOf("GPUMEMSHIM_CUPTI");
  constexpr uint32_t kLongCuptiWaitMs = 3000;
  const bool waits = cupti != nullptr && strcasecmp(cupti, "wait") == 0;
  settings.cupti = waits || ParseSwitch(cupti, false);
  if (waits) settings.cupti_wait_ms = kLongCuptiWaitMs;
  settings.sample_ms = ParseMilliseconds(SettingOf("GPUMEMSHIM_SAMPLE_MS"), settings.sample_ms);
  Copy(settings.warn_at, sizeof settings.warn_at, "GPUMEMSHIM_WARN_AT");
  settings.limit_bytes = ParseSize(SettingOf("GPUMEMSHIM_LIMIT"));
  settings.size_limit = ReadSizeLimit();
  return settings;
}

namespace {

constexpr size_t kMaxBytes = 3072;

// "NAME=VALUE" one behind the other, each with its end; an empty one is the last.
char g_text[kMaxBytes + 2];
std::atomic<bool> g_given;

}  // namespace

void GiveSettings(const char* lines) {
  const size_t size = lines == nullptr ? 0 : strnlen(lines, kMaxBytes);
  for (size_t i = 0; i < size; ++i) g_text[i] = lines[i] == '\n' ? '\0' : lines[i];
  g_text[size] = g_text[size + 1] = '\0';
  g_given.store(true, std::memory_order_release);
}

const char* GivenSetting(const char* name) {
  if (!g_given.load(std::memory_order_acquire)) return nullptr;
  const size_t size = strlen(name);
  for (const char* at = g_text; *at != '\0'; at += strlen(at) + 1) {
    if (strncmp(at, name, size) == 0 && at[size] == '=') return at + size + 1;
  }
  return nullptr;
}

const char* SettingOf(const char* name) {
  const char* given = GivenSetting(name);
  return given != nullptr ? given : std::getenv(name);
}

namespace {

constexpr char kPrefix[] = "GPUMEMSHIM_";
constexpr size_t kPrefixSize = sizeof kPrefix - 1;
constexpr size_t kLongest = 63;    // of a name that is compared
constexpr size_t kMaxNamed = 8;    // in one line
constexpr uint32_t kFarthest = 4;  // edits at which a name still may be meant, less for short ones
constexpr size_t kLongestPrinted = 80;

template <typename Visit>
void ForEachKnown(Visit visit) {
  for (const char* name : kSettingNames) visit(name);
  for (const char* name : kToolSettingNames) visit(name);
  for (const char* name : kProgramSettingNames) visit(name);
}

bool IsInner(const char* name, size_t size) {
  for (const char* inner : kInnerSettingNames) {
    const size_t inner_size = std::strlen(inner);
    const bool begins = size >= inner_size && std::memcmp(inner, name, inner_size) == 0;
    if (begins && (size == inner_size || inner[inner_size - 1] == '_')) return true;
  }
  return false;
}

bool IsKnown(const char* name, size_t size) {
  bool known = IsInner(name, size);
  ForEachKnown([&](const char* candidate) {
    known = known || (std::strlen(candidate) == size && std::memcmp(candidate, name, size) == 0);
  });
  return known;
}

char Upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

uint32_t Least(uint32_t a, uint32_t b, uint32_t c) { return a < b ? (a < c ? a : c) : (b < c ? b : c); }

// Insertions, deletions and exchanges of letters from one to the other; case does not matter.
uint32_t Distance(const char* a, size_t a_size, const char* b, size_t b_size) {
  if (a_size > kLongest || b_size > kLongest) return UINT32_MAX;
  uint32_t row[kLongest + 1];
  for (size_t j = 0; j <= b_size; ++j) row[j] = static_cast<uint32_t>(j);
  for (size_t i = 1; i <= a_size; ++i) {
    uint32_t diagonal = row[0];
    row[0] = static_cast<uint32_t>(i);
    for (size_t j = 1; j <= b_size; ++j) {
      const uint32_t above = row[j];
      row[j] = Least(row[j] + 1, row[j - 1] + 1, diagonal + (Upper(a[i - 1]) == Upper(b[j - 1]) ? 0u : 1u));
      diagonal = above;
    }
  }
  return row[b_size];
}

// A name as it may go to a terminal.
void AddName(const char* name, size_t size, Text* text) {
  for (size_t i = 0; i < size && i < kLongestPrinted; ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    text->Add(c < 0x20 || c >= 0x7f ? '?' : name[i]);
  }
}

}  // namespace

const char* NearestSetting(const char* name, size_t size) {
  if (size <= kPrefixSize) return nullptr;
  const size_t own_size = size - kPrefixSize;
  const char* nearest = nullptr;
  uint32_t least = own_size / 2 < kFarthest ? static_cast<uint32_t>(own_size / 2) + 1 : kFarthest + 1;
  ForEachKnown([&](const char* candidate) {
    const char* own = candidate + kPrefixSize;
    const uint32_t distance = Distance(name + kPrefixSize, own_size, own, std::strlen(own));
    if (distance >= least) return;
    least = distance;
    nearest = candidate;
  });
  return nearest;
}

size_t UnknownSettingsLine(const char* const* environment, char* out, size_t capacity) {
  Text text(out, capacity);
  size_t count = 0;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    if (std::strncmp(*environment, kPrefix, kPrefixSize) != 0) continue;
    const char* equals = std::strchr(*environment, '=');
    const size_t size = equals == nullptr ? std::strlen(*environment) : static_cast<size_t>(equals - *environment);
    if (IsKnown(*environment, size) || ++count > kMaxNamed) continue;
    text.Add(count == 1 ? "gpumemshim: " : "; ");
    AddName(*environment, size, &text);
    text.Add(" is not a setting of this version");
    const char* nearest = NearestSetting(*environment, size);
    if (nearest != nullptr) text.Add(" (").Add(nearest).Add(" is)");
  }
  if (count == 0) return 0;
  text.Add(". docs/environment.md lists them all.\n");
  return text.size();
}

}  // namespace gpumemshim::control
