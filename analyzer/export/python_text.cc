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

void PickleWriter::Append32(uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out_->push_back(static_cast<char>(value >> shift));
}

void PickleWriter::Text(absl::string_view text) {
  if (const auto known = texts_.find(text); known != texts_.end()) return Recall(known->second);
  out_->push_back('X');
  Append32(static_cast<uint32_t>(text.size()));
  out_->append(text.data(), text.size());
  texts_.emplace(std::string(text), Remember());
}

void PickleWriter::Number(uint64_t value) {
  if (value < 256) {
    out_->push_back('K');
    out_->push_back(static_cast<char>(value));
  } else if (value <= INT32_MAX) {
    out_->push_back('J');
    Append32(static_cast<uint32_t>(value));
  } else {
    // Little-endian with its sign: a highest bit that is set needs a zero behind it.
    std::string bytes;
    for (uint64_t rest = value; rest != 0; rest >>= 8) bytes.push_back(static_cast<char>(rest));
    if ((bytes.back() & 0x80) != 0) bytes.push_back('\0');
    out_->push_back('\x8a');
    out_->push_back(static_cast<char>(bytes.size()));
    out_->append(bytes);
  }
}

void PickleWriter::Signed(int64_t value) {
  if (value >= 0) return Number(static_cast<uint64_t>(value));
  out_->append("\x8a\x08", 2);
  for (int shift = 0; shift < 64; shift += 8) out_->push_back(static_cast<char>(static_cast<uint64_t>(value) >> shift));
}

void PickleWriter::Pair(uint64_t a, uint64_t b) {
  Number(a);
  Number(b);
  out_->push_back('\x86');
}

uint32_t PickleWriter::Remember() {
  const uint32_t number = next_++;
  if (number < 256) {
    out_->push_back('q');
    out_->push_back(static_cast<char>(number));
  } else {
    out_->push_back('r');
    Append32(number);
  }
  return number;
}

void PickleWriter::Recall(uint32_t number) {
  if (number < 256) {
    out_->push_back('h');
    out_->push_back(static_cast<char>(number));
  } else {
    out_->push_back('j');
    Append32(number);
  }
}

}  // namespace gpumem
