// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PickleBytes: what opcodes and their arguments are read from: single bytes, counted runs and lines out of a
// ByteSource. Not thread-safe. Where the file ends first, Take and Line return nothing and ok() is false.
//
//   PickleBytes bytes(&source);
//   const int opcode = bytes.Byte();
//   absl::string_view text = bytes.Take(length);   // valid until the next call

#ifndef GPUMEM_ANALYZER_IMPORT_PICKLE_BYTES_H_
#define GPUMEM_ANALYZER_IMPORT_PICKLE_BYTES_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "import/byte_source.h"

namespace gpumem {

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

#endif  // GPUMEM_ANALYZER_IMPORT_PICKLE_BYTES_H_
