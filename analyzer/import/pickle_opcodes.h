// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The opcodes of Python's pickle, protocols 0 to 5, with the names that pickletools prints. Pure.
//
//   PickleOpcodeName('c')   // "GLOBAL"; "" where there is no such opcode

#ifndef GPUMEM_ANALYZER_IMPORT_PICKLE_OPCODES_H_
#define GPUMEM_ANALYZER_IMPORT_PICKLE_OPCODES_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "import/byte_source.h"

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

// PickleBytes: what opcodes and their arguments are read from: single bytes, counted runs and lines out of a
// ByteSource. Not thread-safe. Where the file ends first, Take and Line return nothing and ok() is false.
//
//   PickleBytes bytes(&source);
//   const int opcode = bytes.Byte();
//   absl::string_view text = bytes.Take(length);   // valid until the next call
class PickleBytes {
 public:
  explicit PickleBytes(ByteSource* source) : source_(source) {}

  bool ok() const { return ok_; }
  uint64_t position() const { return before_ + at_; }

  // -1 at the end.
  int Byte() {
    if (at_ == piece_.size() && !Refill()) return -1;
    return static_cast<unsigned char>(piece_[at_++]);
  }

  // So many bytes, in one piece.
  absl::string_view Take(uint64_t size) {
    if (size <= piece_.size() - at_) {
      at_ += size;
      return piece_.substr(at_ - size, size);
    }
    return TakeAcross(size);
  }

  // Little-endian.
  uint64_t Number(int size) {
    uint64_t value = 0;
    const absl::string_view bytes = Take(static_cast<uint64_t>(size));
    for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  }

  // Up to a newline, which is not in it; ok() is false where it is longer than `most`.
  absl::string_view Line(uint64_t most) {
    kept_.clear();
    for (int byte = Byte(); byte != '\n'; byte = Byte()) {
      if (byte < 0 || kept_.size() == most) {
        ok_ = false;
        return "";
      }
      kept_.push_back(static_cast<char>(byte));
    }
    return kept_;
  }

 private:
  bool Refill() {
    before_ += piece_.size();
    at_ = 0;
    piece_ = source_->Next();
    return ok_ = ok_ && !piece_.empty();
  }

  absl::string_view TakeAcross(uint64_t size) {
    kept_.clear();
    while (kept_.size() < size) {
      if (at_ == piece_.size() && !Refill()) return "";
      const size_t part = std::min<uint64_t>(piece_.size() - at_, size - kept_.size());
      kept_.append(piece_.data() + at_, part);
      at_ += part;
    }
    return kept_;
  }

  ByteSource* source_;
  absl::string_view piece_;
  size_t at_ = 0;
  uint64_t before_ = 0;
  bool ok_ = true;
  std::string kept_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_PICKLE_OPCODES_H_
