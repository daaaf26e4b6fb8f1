// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/format.h"

#include <charconv>
#include <cmath>
#include <ctime>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace gpumem {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

// In the smallest unit in which it is below `limit`: what would be rounded up to 1024 is 1 of the next.
std::pair<double, size_t> Scaled(uint64_t bytes, double limit) {
  size_t unit = 0;
  double value = std::ldexp(static_cast<double>(bytes), -10);
  for (; unit + 1 < std::size(kUnits) && value >= limit; ++unit) value /= 1024;
  return {value, unit};
}

}  // namespace

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  const auto [value, unit] = Scaled(bytes, 1023.995);
  const bool whole = (bytes & ((uint64_t{1} << (10 * (unit + 1))) - 1)) == 0;
  if (whole) return absl::StrFormat("%.0f %s", value, kUnits[unit]);
  return absl::StrFormat("%.*f %s", value < 99.995 ? 2 : 1, value, kUnits[unit]);
}

std::string FormatBytesAligned(uint64_t bytes) {
  if (bytes < 1000) return absl::StrCat(bytes, " B");
  const auto [value, unit] = Scaled(bytes, 999.5);
  return absl::StrFormat("%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, kUnits[unit]);
}

std::string FormatCount(uint64_t count) {
  std::string text = absl::StrCat(count);
  for (int pos = static_cast<int>(text.size()) - 3; pos > 0; pos -= 3) text.insert(static_cast<size_t>(pos), 1, ',');
  return text;
}

std::string FormatCountOf(uint64_t count, absl::string_view one, absl::string_view many) {
  return absl::StrCat(FormatCount(count), " ", count == 1 ? one : many);
}

std::string FormatTime(uint64_t ns) {
  const double seconds = static_cast<double>(ns) / 1e9;
  if (ns == 0) return "0 s";
  if (ns < 1000) return absl::StrCat(ns, " ns");
  if (ns < 999'500) return absl::StrFormat("%.0f us", static_cast<double>(ns) / 1e3);
  if (ns < kSecond) return absl::StrFormat("%.*f ms", ns < 99'950'000 ? 1 : 0, static_cast<double>(ns) / 1e6);
  if (ns < 100 * kSecond) return absl::StrFormat("%.3f s", seconds);
  const uint64_t whole = ns / kSecond;
  if (whole < 3600) return absl::StrFormat("%d min %02d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %02d min", whole / 3600, whole / 60 % 60);
}

std::string FormatPercent(double ratio) {
  const double percent = ratio * 100;
  if (percent == 0) return "0 %";
  if (percent < 0.1) return "<0.1 %";
  return absl::StrFormat("%.*f %%", percent < 9.95 ? 1 : 0, percent);
}

std::string FormatUtc(uint64_t realtime_ns) {
  const auto seconds = static_cast<time_t>(realtime_ns / kSecond);
  tm parts{};
  if (gmtime_r(&seconds, &parts) == nullptr) return "unknown time";
  char text[40];
  const size_t length = strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return std::string(text, length);
}

std::optional<uint64_t> ParseTime(absl::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
  const absl::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  double scale = 0;
  if (unit.empty() || unit == "s") scale = 1e9;
  if (unit == "ms") scale = 1e6;
  if (unit == "us" || unit == "µs") scale = 1e3;
  if (unit == "ns") scale = 1;
  if (unit == "m" || unit == "min") scale = 60e9;
  if (unit == "h") scale = 3600e9;
  if (scale == 0 || number * scale >= 1.8e19) return std::nullopt;
  return static_cast<uint64_t>(std::llround(std::min(number * scale, 9.2e18)));
}

std::optional<uint64_t> ParseBytes(absl::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
  absl::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  double scale = 1;
  for (const auto& [letter, factor] : {std::pair('K', 0x1p10), {'M', 0x1p20}, {'G', 0x1p30}, {'T', 0x1p40}}) {
    if (!unit.empty() && (unit[0] == letter || unit[0] == letter + ('a' - 'A'))) scale = factor;
  }
  if (scale != 1) unit.remove_prefix(1);
  const bool is_known = unit.empty() || unit == "B" || (scale != 1 && unit == "iB");
  if (!is_known || number * scale >= 1.8e19) return std::nullopt;
  return static_cast<uint64_t>(std::floor(number * scale));
}

std::string ShellQuoted(const std::string& text) {
  static constexpr absl::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:,@%=";
  if (!text.empty() && text[0] != '-' && text.find_first_not_of(std::string(kPlain)) == std::string::npos) return text;
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

}  // namespace gpumem
