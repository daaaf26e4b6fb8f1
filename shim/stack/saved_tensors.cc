// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/saved_tensors.h"

#include <atomic>

#include "shim/stack/memory_read.h"

namespace gpumemshim::stack {
namespace {

// A TensorImpl begins with its vtable and its counts and goes on with its storage; a StorageImpl with its vtable, its
// counts, and its DataPtr: the address, a context with its deleter, and the device. The counts took 16 bytes up to
// PyTorch 2.9 and take 8 since, so a few places are tried.
constexpr uint32_t kFirstOffset = 16, kLastOffset = 40;
constexpr uint32_t kDeviceBehindData = 24;
constexpr int8_t kCuda = 1;

// Offset of the storage in the tensor << 8 | of the data in the storage; 0 = not known.
std::atomic<uint32_t> g_layout{0};

}  // namespace

void LearnTensorLayout(const void* tensor, const void* data) {
  if (tensor == nullptr || data == nullptr) return;
  for (uint32_t outer = kFirstOffset; outer <= kLastOffset; outer += 8) {
    const void* storage = nullptr;
    if (!TryRead(tensor, outer, &storage) || storage == nullptr) continue;
    for (uint32_t inner = kFirstOffset; inner <= kLastOffset; inner += 8) {
      const void* found = nullptr;
      int8_t device = -1;
      if (!TryRead(storage, inner, &found) || found != data) continue;
      if (!TryRead(storage, inner + kDeviceBehindData, &device) || device != kCuda) continue;
      return g_layout.store(outer << 8 | inner, std::memory_order_relaxed);
    }
  }
}

uint64_t DataOf(const void* tensor) {
  const uint32_t layout = g_layout.load(std::memory_order_relaxed);
  if (layout == 0) return 0;
  const void* implementation = Load<const void*>(tensor, 0);
  if (implementation == nullptr) return 0;
  const void* storage = Load<const void*>(implementation, layout >> 8);
  if (storage == nullptr) return 0;
  if (Load<int8_t>(storage, (layout & 0xFF) + kDeviceBehindData) != kCuda) return 0;
  return Load<uint64_t>(storage, layout & 0xFF);
}

}  // namespace gpumemshim::stack
