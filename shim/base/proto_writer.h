// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ProtoWriter: appends protobuf fields to a Buffer. libprotobuf cannot be in a preloaded library (its descriptors
// collide with the host's copy), so this writes the wire format itself; the tests decode it with libprotobuf. Nested
// messages get their length filled in when closed.
//
// Thread-safety: one thread at a time. Ownership: borrows the Buffer. Failure: when the Buffer cannot grow, ok() turns
// false for good and nothing more is written; what was written is then to be thrown away.
//
//   ProtoWriter w(&buffer);
//   size_t mark = w.Open(kFrames);
//   w.Varint(1, id);
//   w.Close(mark);

#ifndef GPUMEM_SHIM_BASE_PROTO_WRITER_H_
#define GPUMEM_SHIM_BASE_PROTO_WRITER_H_

#include <cstdint>
#include <cstring>

#include "shim/base/buffer.h"

namespace gpumemshim {

constexpr uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}

class ProtoWriter {
 public:
  static constexpr size_t kMaxVarint = 10;

  explicit ProtoWriter(Buffer* buffer) : buffer_(buffer) {}

  bool ok() const { return ok_; }
  size_t size() const { return buffer_->size(); }

  void Varint(uint32_t field, uint64_t value) {
    if (!Room(2 * kMaxVarint)) return;
    uint8_t* p = PutVarint(End(), field << 3 | kWireVarint);
    SetEnd(PutVarint(p, value));
  }
  void VarintIf(uint32_t field, uint64_t value) {
    if (value != 0) Varint(field, value);
  }
  void SInt(uint32_t field, int64_t value) { Varint(field, ZigZag(value)); }

  void Fixed32(uint32_t field, uint32_t value) { Fixed(field << 3 | kWireFixed32, &value, sizeof(value)); }
  void Fixed64(uint32_t field, uint64_t value) { Fixed(field << 3 | kWireFixed64, &value, sizeof(value)); }

  void Bytes(uint32_t field, const void* data, size_t size) {
    if (!Room(2 * kMaxVarint + size)) return;
    uint8_t* p = PutVarint(End(), field << 3 | kWireBytes);
    p = PutVarint(p, size);
    if (size != 0) memcpy(p, data, size);
    SetEnd(p + size);
  }
  // A proto3 string must be UTF-8, or parsers refuse the whole message; bytes that are not become '?'.
  void String(uint32_t field, const char* text, size_t size);
  void String(uint32_t field, const char* text) { String(field, text, strlen(text)); }
  void StringIf(uint32_t field, const char* text) {
    if (text != nullptr && text[0] != '\0') String(field, text);
  }

  // Opens a nested message or packed field; hand the mark to Close.
  size_t Open(uint32_t field) {
    if (!Room(kMaxVarint + kLengthBytes)) return 0;
    uint8_t* p = PutVarint(End(), field << 3 | kWireBytes);
    SetEnd(p + kLengthBytes);
    return buffer_->size();
  }
  void Close(size_t mark);

  // Elements of a packed field: room first, then raw values.
  bool Room(size_t bytes) {
    if (ok_ && buffer_->Reserve(buffer_->size() + bytes)) return true;
    ok_ = false;
    return false;
  }
  uint8_t* End() { return buffer_->data() + buffer_->size(); }
  void SetEnd(uint8_t* end) { buffer_->Resize(static_cast<size_t>(end - buffer_->data())); }

  static uint8_t* PutVarint(uint8_t* p, uint64_t value) {
    while (value >= 0x80) {
      *p++ = static_cast<uint8_t>(value | 0x80);
      value >>= 7;
    }
    *p++ = static_cast<uint8_t>(value);
    return p;
  }

 private:
  static constexpr uint64_t kWireVarint = 0, kWireFixed64 = 1, kWireBytes = 2, kWireFixed32 = 5;
  static constexpr size_t kLengthBytes = 5;  // room kept for a length until it is known; any uint32 fits

  void Fixed(uint64_t tag, const void* value, size_t size) {
    if (!Room(kMaxVarint + size)) return;
    uint8_t* p = PutVarint(End(), tag);
    memcpy(p, value, size);  // little-endian hosts only, as CUDA's are
    SetEnd(p + size);
  }

  Buffer* buffer_;
  bool ok_ = true;
};

inline void ProtoWriter::Close(size_t mark) {
  if (!ok_) return;
  uint8_t* body = buffer_->data() + mark;
  size_t size = buffer_->size() - mark;
  if (size > UINT32_MAX) {
    ok_ = false;
    return;
  }
  uint8_t* length = body - kLengthBytes;
  uint8_t* end = PutVarint(length, size);
  // Small messages are many: move them up behind a short length. Large ones are few: a padded length costs less than
  // the move.
  if (size < 4096) {
    memmove(end, body, size);
    SetEnd(end + size);
    return;
  }
  for (size_t i = 0; i < kLengthBytes; i++) {
    length[i] = static_cast<uint8_t>((size & 0x7f) | (i + 1 < kLengthBytes ? 0x80 : 0));
    size >>= 7;
  }
}

inline void ProtoWriter::String(uint32_t field, const char* text, size_t size) {
  Bytes(field, text, size);
  if (!ok_) return;
  uint8_t* p = End() - size;
  uint8_t* end = End();
  while (p < end) {
    uint8_t c = *p;
    if (c < 0x80) {
      p++;
      continue;
    }
    size_t more = c >= 0xc2 && c <= 0xdf ? 1 : (c & 0xf0) == 0xe0 ? 2 : c >= 0xf0 && c <= 0xf4 ? 3 : 0;
    bool good = more != 0 && static_cast<size_t>(end - p) > more;
    for (size_t i = 1; good && i <= more; i++) good = (p[i] & 0xc0) == 0x80;
    // Overlong forms, surrogates and numbers past U+10FFFF show in the second byte.
    if (good && c == 0xe0) good = p[1] >= 0xa0;
    if (good && c == 0xed) good = p[1] < 0xa0;
    if (good && c == 0xf0) good = p[1] >= 0x90;
    if (good && c == 0xf4) good = p[1] < 0x90;
    if (good) {
      p += more + 1;
    } else {
      *p++ = '?';
    }
  }
}

}  // namespace gpumemshim

#endif  // GPUMEM_SHIM_BASE_PROTO_WRITER_H_
