// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "export/python_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <ctime>

#include "absl/strings/str_format.h"

namespace gpumem {

std::string PythonFloat(double value) {
  if (!std::isfinite(value)) return "null";
  // Python changes to an exponent at 1e16 and below 1e-4.
  const double size = std::fabs(value);
  const bool is_plain = size == 0 || (size >= 1e-4 && size < 1e16);
  std::array<char, 64> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value,
                                          is_plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string out(text.data(), end);
  if (is_plain && out.find('.') == std::string::npos) out += ".0";
  return out;
}

void WriteFloat(absl::string_view key, double value, JsonWriter* json) {
  json->Key(key);
  json->Raw(PythonFloat(value));
}

std::string PythonTime(uint64_t realtime_ns, const char* format) {
  const auto seconds = static_cast<time_t>(realtime_ns / 1'000'000'000);
  tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 64> text;
  return std::string(text.data(), strftime(text.data(), text.size(), format, &parts));
}

std::string PythonIsoTime(uint64_t realtime_ns) {
  const uint64_t us = realtime_ns / 1000 % 1'000'000;
  return PythonTime(realtime_ns, "%Y-%m-%dT%H:%M:%S") + (us == 0 ? "" : absl::StrFormat(".%06d", us));
}

}  // namespace gpumem
