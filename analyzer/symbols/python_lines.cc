// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/python_lines.h"

#include <optional>

#include "absl/strings/string_view.h"

namespace gpumem {
namespace {

constexpr uint32_t kCodeUnit = 2;  // bytes
// Each instruction is looked up from the table's start, so a long one with many would take long.
constexpr size_t kMaxTableBytes = 256u << 10;

// Kinds of entries in the location table of 3.11.
constexpr uint32_t kNoLocation = 15;
constexpr uint32_t kLong = 14;
constexpr uint32_t kNoColumns = 13;
constexpr uint32_t kOneLine0 = 10;

class LocationTable {
 public:
  explicit LocationTable(absl::string_view bytes) : bytes_(bytes) {}

  bool done() const { return at_ >= bytes_.size(); }
  uint32_t Byte() { return done() ? 0 : static_cast<uint8_t>(bytes_[at_++]); }

  // Six bits a byte, the lowest first; bit 6 says that more follow.
  uint32_t Varint() {
    uint32_t value = 0;
    for (uint32_t shift = 0; shift < 32; shift += 6) {
      const uint32_t byte = Byte();
      value |= (byte & 63) << shift;
      if ((byte & 64) == 0) break;
    }
    return value;
  }

  int64_t SignedVarint() {
    const uint32_t value = Varint();
    return (value & 1) != 0 ? -static_cast<int64_t>(value >> 1) : static_cast<int64_t>(value >> 1);
  }

 private:
  absl::string_view bytes_;
  size_t at_ = 0;
};

std::optional<int64_t> LineFromLocations(absl::string_view bytes, uint32_t first_line, uint32_t instruction) {
  LocationTable table(bytes);
  int64_t line = first_line;
  uint64_t end = 0;
  while (!table.done()) {
    const uint32_t head = table.Byte();
    const uint32_t kind = (head >> 3) & 15;
    end += ((head & 7) + 1) * kCodeUnit;
    bool has_line = true;
    if (kind == kNoLocation) {
      has_line = false;
    } else if (kind == kLong) {
      line += table.SignedVarint();
      for (int i = 0; i < 3; ++i) table.Varint();  // last line and columns
    } else if (kind == kNoColumns) {
      line += table.SignedVarint();
    } else {
      if (kind >= kOneLine0) {
        line += kind - kOneLine0;
        table.Byte();
      }
      table.Byte();
    }
    if (instruction < end) return has_line ? std::optional<int64_t>(line) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<int64_t> LineFromRanges(absl::string_view bytes, uint32_t first_line, uint32_t instruction) {
  int64_t line = first_line;
  uint64_t end = 0;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    end += static_cast<uint8_t>(bytes[i]);
    const int delta = static_cast<int8_t>(bytes[i + 1]);
    if (delta != -128) line += delta;
    if (instruction < end) return delta == -128 ? std::nullopt : std::optional<int64_t>(line);
  }
  return std::nullopt;
}

std::optional<int64_t> LineFromLnotab(absl::string_view bytes, uint32_t first_line, uint32_t instruction) {
  int64_t line = first_line;
  uint64_t start = 0;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    start += static_cast<uint8_t>(bytes[i]);
    if (start > instruction) break;
    line += static_cast<int8_t>(bytes[i + 1]);
  }
  return line;
}

}  // namespace

uint32_t PythonLine(const PythonCodeInfo& code, uint32_t instruction) {
  std::optional<int64_t> line;
  const absl::string_view table = absl::string_view(code.line_table).substr(0, kMaxTableBytes);
  if (code.python_minor >= 11) {
    line = LineFromLocations(table, code.first_line, instruction);
  } else if (code.python_minor == 10) {
    line = LineFromRanges(table, code.first_line, instruction);
  } else {
    line = LineFromLnotab(table, code.first_line, instruction);
  }
  if (!line || *line <= 0 || *line > INT32_MAX) return code.first_line;
  return static_cast<uint32_t>(*line);
}

}  // namespace gpumem
