// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/pickle_opcodes.h"

#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace gpumem {
namespace {

constexpr std::pair<int, const char*> kNames[] = {
    {kMark, "MARK"},
    {kEmptyTuple, "EMPTY_TUPLE"},
    {kStop, "STOP"},
    {kPop, "POP"},
    {kPopMark, "POP_MARK"},
    {kDup, "DUP"},
    {kBinBytes, "BINBYTES"},
    {kShortBinBytes, "SHORT_BINBYTES"},
    {kFloat, "FLOAT"},
    {kBinFloat, "BINFLOAT"},
    {kInt, "INT"},
    {kBinInt, "BININT"},
    {kBinInt1, "BININT1"},
    {kLong, "LONG"},
    {kBinInt2, "BININT2"},
    {kNone, "NONE"},
    {kString, "STRING"},
    {kBinString, "BINSTRING"},
    {kShortBinString, "SHORT_BINSTRING"},
    {kUnicode, "UNICODE"},
    {kBinUnicode, "BINUNICODE"},
    {kEmptyList, "EMPTY_LIST"},
    {kAppend, "APPEND"},
    {kGlobal, "GLOBAL"},
    {kDict, "DICT"},
    {kAppends, "APPENDS"},
    {kGet, "GET"},
    {kBinGet, "BINGET"},
    {kInst, "INST"},
    {kLongBinGet, "LONG_BINGET"},
    {kList, "LIST"},
    {kPut, "PUT"},
    {kBinPut, "BINPUT"},
    {kLongBinPut, "LONG_BINPUT"},
    {kSetItem, "SETITEM"},
    {kTuple, "TUPLE"},
    {kSetItems, "SETITEMS"},
    {kEmptyDict, "EMPTY_DICT"},
    {kProto, "PROTO"},
    {kTuple1, "TUPLE1"},
    {kTuple2, "TUPLE2"},
    {kTuple3, "TUPLE3"},
    {kNewTrue, "NEWTRUE"},
    {kNewFalse, "NEWFALSE"},
    {kLong1, "LONG1"},
    {kLong4, "LONG4"},
    {kShortBinUnicode, "SHORT_BINUNICODE"},
    {kBinUnicode8, "BINUNICODE8"},
    {kBinBytes8, "BINBYTES8"},
    {kEmptySet, "EMPTY_SET"},
    {kAddItems, "ADDITEMS"},
    {kFrozenSet, "FROZENSET"},
    {kStackGlobal, "STACK_GLOBAL"},
    {kMemoize, "MEMOIZE"},
    {kFrame, "FRAME"},
    {kByteArray8, "BYTEARRAY8"},
    // Refused, so here for their names alone.
    {'R', "REDUCE"},
    {'b', "BUILD"},
    {'o', "OBJ"},
    {'P', "PERSID"},
    {'Q', "BINPERSID"},
    {0x81, "NEWOBJ"},
    {0x82, "EXT1"},
    {0x83, "EXT2"},
    {0x84, "EXT4"},
    {0x92, "NEWOBJ_EX"},
    {0x97, "NEXT_BUFFER"},
    {0x98, "READONLY_BUFFER"},
};

void AppendUtf8(uint32_t point, std::string* out) {
  if (point < 0x80) {
    out->push_back(static_cast<char>(point));
  } else if (point < 0x800) {
    out->push_back(static_cast<char>(0xc0 | point >> 6));
    out->push_back(static_cast<char>(0x80 | (point & 63)));
  } else if (point < 0x10000) {
    out->push_back(static_cast<char>(0xe0 | point >> 12));
    out->push_back(static_cast<char>(0x80 | (point >> 6 & 63)));
    out->push_back(static_cast<char>(0x80 | (point & 63)));
  } else if (point < 0x110000) {
    out->push_back(static_cast<char>(0xf0 | point >> 18));
    out->push_back(static_cast<char>(0x80 | (point >> 12 & 63)));
    out->push_back(static_cast<char>(0x80 | (point >> 6 & 63)));
    out->push_back(static_cast<char>(0x80 | (point & 63)));
  }
}

// How many digits follow \x, \u and \U.
size_t DigitsOf(char escape) { return escape == 'x' ? 2 : escape == 'u' ? 4 : escape == 'U' ? 8 : 0; }

}  // namespace

absl::string_view PickleOpcodeName(int opcode) {
  for (const auto& [value, name] : kNames) {
    if (value == opcode) return name;
  }
  return "";
}

std::optional<int64_t> PickledInteger(absl::string_view bytes) {
  if (bytes.size() == sizeof(uint64_t) + 1 && bytes.back() == '\0') bytes.remove_suffix(1);  // the sign of all 64 bits
  if (bytes.size() > sizeof(uint64_t)) return std::nullopt;
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  const int missing = static_cast<int>(8 * (sizeof(uint64_t) - bytes.size()));
  const bool is_negative = !bytes.empty() && missing != 0 && (static_cast<unsigned char>(bytes.back()) & 0x80) != 0;
  if (is_negative) value |= ~uint64_t{0} << (64 - missing);
  return static_cast<int64_t>(value);
}

std::string UnescapedPickleText(absl::string_view line, bool is_quoted) {
  if (is_quoted && line.size() >= 2) line = line.substr(1, line.size() - 2);
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\' || i + 1 == line.size()) {
      text.push_back(line[i]);
      continue;
    }
    const char escape = line[++i];
    const size_t digits = DigitsOf(escape);
    uint32_t point = 0;
    if (digits != 0 && absl::SimpleHexAtoi(line.substr(i + 1, digits), &point)) {
      AppendUtf8(point, &text);
      i += digits;
    } else if (is_quoted && escape == 'n') {
      text.push_back('\n');
    } else if (is_quoted && escape == 't') {
      text.push_back('\t');
    } else {
      if (!is_quoted) text.push_back('\\');
      if (escape != '\\' || is_quoted) text.push_back(escape);
    }
  }
  return text;
}

}  // namespace gpumem
