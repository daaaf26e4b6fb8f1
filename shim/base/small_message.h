// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SmallMessage: one short protobuf message made where there is neither heap nor much stack, for ring::RecordReady.
//
// Thread-safety: none needed, it is a value. Failure: what finds no room is left out, and ok() is false from then on.
//
//   SmallMessage<512> message;
//   message.Varint(1, id).Text(2, name, size);
//   ring::RecordReady(field, message.data(), message.size());

#ifndef GPUMEM_SHIM_BASE_SMALL_MESSAGE_H_
#define GPUMEM_SHIM_BASE_SMALL_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gpumemshim {

template <size_t kCapacity>
class SmallMessage {
 public:
  // 0 is left out, as proto3 has it.
  SmallMessage& Varint(uint32_t field, uint64_t value) {
    if (value != 0 && HasRoom(2 * kMaxVarint)) {
      Put(uint64_t{field} << 3);
      Put(value);
    }
    return *this;
  }

  SmallMessage& Text(uint32_t field, const char* text, size_t size) {
    if (size != 0 && HasRoom(2 * kMaxVarint + size)) {
      Put(uint64_t{field} << 3 | 2);
      Put(size);
      std::memcpy(bytes_ + size_, text, size);
      size_ += size;
    }
    return *this;
  }

  const void* data() const { return bytes_; }
  uint32_t size() const { return static_cast<uint32_t>(size_); }
  bool ok() const { return ok_; }

 private:
  static constexpr size_t kMaxVarint = 10;

  bool HasRoom(size_t size) {
    ok_ = ok_ && size <= kCapacity - size_;
    return ok_;
  }
  void Put(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_[size_++] = static_cast<unsigned char>(value | 0x80);
    bytes_[size_++] = static_cast<unsigned char>(value);
  }

  unsigned char bytes_[kCapacity];
  size_t size_ = 0;
  bool ok_ = true;
};

}  // namespace gpumemshim

#endif  // GPUMEM_SHIM_BASE_SMALL_MESSAGE_H_
