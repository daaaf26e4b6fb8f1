// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// FlatTable: a hash table from a small plain key to a non-zero uint32, open addressing with linear probing, in memory
// of its own. Nothing is ever removed. Bounded by max_count, because its keys come from the host.
//
// Thread-safety: one thread at a time. Failure: Insert returns nullptr when the table is full or no memory can be had.
//
//   FlatTable<uint64_t> ids(1 << 20);
//   uint32_t* id = ids.Insert(key);
//   if (id != nullptr && *id == 0) *id = ++last_id;   // 0 = it was not there

#ifndef GPUMEM_SHIM_BASE_FLAT_TABLE_H_
#define GPUMEM_SHIM_BASE_FLAT_TABLE_H_

#include <cstdint>

#include "shim/base/buffer.h"

namespace gpumemshim {

// Spreads the bits of a key over the table (the finalizer of splitmix64).
constexpr uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
constexpr uint64_t HashKey(uint64_t key) { return MixBits(key); }

template <typename Key>
class FlatTable {
 public:
  explicit FlatTable(size_t max_count) : max_count_(max_count) {}

  // The value of key, or 0.
  uint32_t Find(const Key& key) const {
    if (count_ == 0) return 0;
    return slots_[Probe(slots_.data(), mask_, key)].value;
  }

  // The place for key's value. Where the value is 0 the key is new, and the caller sets it at once to something else.
  uint32_t* Insert(const Key& key) {
    if (slots_.size() == 0 || (count_ + 1) * 3 > slots_.size() * 2) {
      if (!Grow()) return nullptr;
    }
    Slot& slot = slots_[Probe(slots_.data(), mask_, key)];
    if (slot.value == 0) {
      if (count_ >= max_count_) return nullptr;
      slot.key = key;
      count_++;
    }
    return &slot.value;
  }

  size_t count() const { return count_; }

 private:
  struct Slot {
    Key key;
    uint32_t value;
  };

  static size_t Probe(const Slot* slots, size_t mask, const Key& key) {
    size_t i = HashKey(key) & mask;
    while (slots[i].value != 0 && !(slots[i].key == key)) i = (i + 1) & mask;
    return i;
  }

  bool Grow() {
    size_t size = slots_.size() == 0 ? 1024 : slots_.size() * 2;
    Array<Slot> bigger(SIZE_MAX / sizeof(Slot));
    if (!bigger.Reserve(size)) return false;
    bigger.Resize(size);  // fresh memory: all zero
    for (size_t i = 0; i < slots_.size(); i++) {
      if (slots_[i].value != 0) bigger[Probe(bigger.data(), size - 1, slots_[i].key)] = slots_[i];
    }
    slots_.Swap(bigger);
    mask_ = size - 1;
    return true;
  }

  Array<Slot> slots_{SIZE_MAX / sizeof(Slot)};
  size_t mask_ = 0;
  size_t count_ = 0;
  size_t max_count_;
};

}  // namespace gpumemshim

#endif  // GPUMEM_SHIM_BASE_FLAT_TABLE_H_
