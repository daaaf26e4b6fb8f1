// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Buffer: a growing run of bytes taken straight from the kernel, because the host's heap is not ours to use (it may be
// interposed, locked, or the very thing under measurement). Bytes past size() are zero until they are first used.
//
// Thread-safety: one thread at a time. Ownership: owns its mapping; movable by Swap only. Failure: Reserve returns
// false and changes nothing.
//
//   Buffer buffer;
//   if (!buffer.Reserve(64)) return;
//   memcpy(buffer.data(), text, 10);
//   buffer.Resize(10);

#ifndef GPUMEM_SHIM_BASE_BUFFER_H_
#define GPUMEM_SHIM_BASE_BUFFER_H_

#include <cstddef>
#include <cstdint>

namespace gpumemshim {

class Buffer {
 public:
  // max_bytes bounds the growth: what it holds comes from the host and may be large.
  constexpr explicit Buffer(size_t max_bytes = size_t{1} << 30) : max_bytes_(max_bytes) {}
  ~Buffer() { Release(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Makes room for at least `bytes` in all. The data may move.
  bool Reserve(size_t bytes) { return bytes <= capacity_ || Grow(bytes); }

  // Sets the size; the room must have been reserved.
  void Resize(size_t bytes) { size_ = bytes; }
  void Clear() { size_ = 0; }

  // Gives the memory back.
  void Release();
  void Swap(Buffer& other);

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }

 private:
  bool Grow(size_t bytes);

  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
  size_t max_bytes_;
};

// A typed view of a Buffer: an array of plain values.
template <typename T>
class Array {
 public:
  constexpr explicit Array(size_t max_count = (size_t{1} << 30) / sizeof(T)) : buffer_(max_count * sizeof(T)) {}

  bool Reserve(size_t count) { return buffer_.Reserve(count * sizeof(T)); }
  bool Push(const T& value) {
    if (!Reserve(size() + 1)) return false;
    data()[size()] = value;
    buffer_.Resize(buffer_.size() + sizeof(T));
    return true;
  }
  void Resize(size_t count) { buffer_.Resize(count * sizeof(T)); }
  void Clear() { buffer_.Clear(); }
  void Release() { buffer_.Release(); }
  void Swap(Array& other) { buffer_.Swap(other.buffer_); }

  T* data() { return reinterpret_cast<T*>(buffer_.data()); }
  const T* data() const { return reinterpret_cast<const T*>(buffer_.data()); }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  size_t size() const { return buffer_.size() / sizeof(T); }

 private:
  Buffer buffer_;
};

}  // namespace gpumemshim

#endif  // GPUMEM_SHIM_BASE_BUFFER_H_
