// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The opcodes of Python's pickle, protocols 0 to 5, with the names that pickletools prints. Pure.
//
//   PickleOpcodeName('c')   // "GLOBAL"; "" where there is no such opcode

#ifndef GPUMEM_ANALYZER_IMPORT_PICKLE_OPCODES_H_
#define GPUMEM_ANALYZER_IMPORT_PICKLE_OPCODES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace gpumem {

inline constexpr unsigned kHighestProtocol = 5;

enum PickleOpcode : int {
  kMark = '(',
  kEmptyTuple = ')',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kFloat = 'F',
  kBinFloat = 'G',
  kInt = 'I',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kLong = 'L',
  kBinInt2 = 'M',
  kNone = 'N',
  kString = 'S',
  kBinString = 'T',
  kShortBinString = 'U',
  kUnicode = 'V',
  kBinUnicode = 'X',
  kEmptyList = ']',
  kAppend = 'a',
  kGlobal = 'c',
  kDict = 'd',
  kAppends = 'e',
  kGet = 'g',
  kBinGet = 'h',
  kInst = 'i',
  kLongBinGet = 'j',
  kList = 'l',
  kPut = 'p',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
};

absl::string_view PickleOpcodeName(int opcode);

// The integer of LONG1 and LONG4: two's complement, little-endian; nothing where it takes more than 64 bits.
std::optional<int64_t> PickledInteger(absl::string_view bytes);

// The text that STRING (in quotes) and UNICODE write with backslashes.
std::string UnescapedPickleText(absl::string_view line, bool is_quoted);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_PICKLE_OPCODES_H_
