// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// WireReader: reads the fields of one serialized protobuf message in place. For the hot path (event columns) and for
// framing, where generated code would copy; everything else is parsed by libprotobuf. Hostile input is expected: no
// read leaves the message, every failure is sticky and leaves ok() false. Groups (wire types 3 and 4) are refused. Does
// not own the bytes.
//
//   WireReader reader(message);
//   for (WireField field; reader.Next(&field);) if (field.number == 1) Use(field.varint);
//   if (!reader.ok()) return absl::DataLossError("broken");

#ifndef GPUMEM_ANALYZER_TRACE_WIRE_H_
#define GPUMEM_ANALYZER_TRACE_WIRE_H_

#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"

namespace gpumem {

enum class WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t varint = 0;      // the value of kVarint, kFixed32 and kFixed64
  absl::string_view bytes;  // the value of kBytes
};

inline int64_t ZigZagDecode(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

// Reads a varint at `*position`, which moves behind it. False where it does not end before `end` or is longer than 64
// bits.
inline bool ReadVarint(const char** position, const char* end, uint64_t* value) {
  const char* p = *position;
  uint64_t result = 0;
  for (uint32_t shift = 0; shift < 64 && p != end; shift += 7) {
    const uint64_t byte = static_cast<uint8_t>(*p++);
    if (shift == 63 && byte > 1) return false;
    result |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      *position = p;
      *value = result;
      return true;
    }
  }
  return false;
}

class WireReader {
 public:
  explicit WireReader(absl::string_view message) : position_(message.data()), end_(message.data() + message.size()) {}

  // False at the end of the message and at the first broken field; ok() tells the two apart.
  bool Next(WireField* field) {
    if (position_ == end_ || !ok_) return false;
    uint64_t tag = 0;
    if (!ReadVarint(&position_, end_, &tag) || (tag >> 3) == 0 || (tag >> 3) > kMaxFieldNumber) return Fail();
    field->number = static_cast<uint32_t>(tag >> 3);
    field->type = static_cast<WireType>(tag & 7);
    return ReadValue(field) || Fail();
  }

  bool ok() const { return ok_; }
  // Where the next field starts.
  const char* position() const { return position_; }

 private:
  static constexpr uint64_t kMaxFieldNumber = (1u << 29) - 1;

  bool Fail() {
    ok_ = false;
    return false;
  }

  template <typename T>
  bool ReadFixed(uint64_t* value) {
    if (static_cast<size_t>(end_ - position_) < sizeof(T)) return false;
    T raw;
    std::memcpy(&raw, position_, sizeof(T));
    position_ += sizeof(T);
    *value = raw;
    return true;
  }

  bool ReadValue(WireField* field) {
    switch (field->type) {
      case WireType::kVarint:
        return ReadVarint(&position_, end_, &field->varint);
      case WireType::kFixed64:
        return ReadFixed<uint64_t>(&field->varint);
      case WireType::kFixed32:
        return ReadFixed<uint32_t>(&field->varint);
      case WireType::kBytes: {
        uint64_t size = 0;
        if (!ReadVarint(&position_, end_, &size) || size > static_cast<uint64_t>(end_ - position_)) return false;
        field->bytes = absl::string_view(position_, static_cast<size_t>(size));
        position_ += size;
        return true;
      }
    }
    return false;
  }

  const char* position_;
  const char* end_;
  bool ok_ = true;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_WIRE_H_
