// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// WireFields: the fields of a serialized protobuf message one after the other, of formats whose .proto is not ours.
// Views into the bytes, which must outlive it. Bytes that are no message end it, and `ok` says so.
//
//   for (WireFields fields(bytes); fields.Next();) {
//     if (fields.number() == 6) strings.push_back(fields.bytes());
//   }

#ifndef GPUMEM_ANALYZER_IMPORT_WIRE_H_
#define GPUMEM_ANALYZER_IMPORT_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpumem {

class WireFields {
 public:
  explicit WireFields(absl::string_view message) : rest_(message) {}

  // False at the end, and where it is damaged.
  bool Next() {
    bytes_ = {};
    value_ = 0;
    uint64_t key = 0;
    if (rest_.empty() || !Varint(&key)) return false;
    number_ = static_cast<uint32_t>(key >> 3);
    switch (key & 7) {
      case 0:
        return Varint(&value_);
      case 1:
        return Skip(8);
      case 2:
        if (uint64_t size = 0; Varint(&size)) return Skip(size);
        return false;
      case 5:
        return Skip(4);
      default:
        return ok_ = false;
    }
  }

  bool ok() const { return ok_; }
  uint32_t number() const { return number_; }
  uint64_t value() const { return value_; }           // of a number
  absl::string_view bytes() const { return bytes_; }  // of a text, a message or packed numbers; of 8 and 4 bytes

  // The numbers of a repeated field, packed or not.
  void AppendTo(std::vector<uint64_t>* values) const {
    if (bytes_.empty()) return values->push_back(value_);
    WireFields packed(bytes_);
    for (uint64_t value = 0; !packed.rest_.empty() && packed.Varint(&value);) values->push_back(value);
  }

 private:
  bool Varint(uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 70 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      if (shift < 64) *value |= uint64_t{byte & 127u} << shift;
      if (byte < 128) return true;
    }
    return ok_ = false;
  }
  bool Skip(uint64_t size) {
    if (size > rest_.size()) return ok_ = false;
    bytes_ = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  absl::string_view rest_, bytes_;
  uint64_t value_ = 0;
  uint32_t number_ = 0;
  bool ok_ = true;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_WIRE_H_
