// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/buffer.h"

#include <sys/mman.h>

namespace gpumemshim {
namespace {
constexpr size_t kPage = 4096;
}

bool Buffer::Grow(size_t bytes) {
  if (bytes > max_bytes_) return false;
  size_t capacity = capacity_ == 0 ? 4 * kPage : capacity_ * 2;
  if (capacity > max_bytes_) capacity = max_bytes_;
  if (capacity < bytes) capacity = bytes;
  capacity = (capacity + kPage - 1) & ~(kPage - 1);
  void* data = data_ == nullptr
                   ? mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                   : mremap(data_, capacity_, capacity, MREMAP_MAYMOVE);
  if (data == MAP_FAILED) return false;
  data_ = static_cast<uint8_t*>(data);
  capacity_ = capacity;
  return true;
}

void Buffer::Release() {
  if (data_ != nullptr) munmap(data_, capacity_);
  data_ = nullptr;
  size_ = capacity_ = 0;
}

void Buffer::Swap(Buffer& other) {
  uint8_t* data = data_;
  size_t size = size_, capacity = capacity_, max_bytes = max_bytes_;
  data_ = other.data_, size_ = other.size_, capacity_ = other.capacity_, max_bytes_ = other.max_bytes_;
  other.data_ = data, other.size_ = size, other.capacity_ = capacity, other.max_bytes_ = max_bytes;
}

}  // namespace gpumemshim
