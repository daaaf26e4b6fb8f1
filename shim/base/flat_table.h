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
    const uint32_t value = slots_[Probe(slots_, key)].value;
    return value != 0 || !IsMoving() ? value : old_[Probe(old_, key)].value;
  }

  // The place for key's value. Where the value is 0 the key is new, and the caller sets it at once to something else.
  uint32_t* Insert(const Key& key) {
    if ((count_ + 1) * 3 > slots_.size() * 2 && !Grow()) return nullptr;
    if (IsMoving()) [[unlikely]]
      Move(kMovedAtATime);
    Slot& slot = slots_[Probe(slots_, key)];
    if (slot.value != 0) return &slot.value;
    if (IsMoving()) [[unlikely]] {
      const Slot& old = old_[Probe(old_, key)];
      if (old.value != 0) {
        slot = old;
        return &slot.value;
      }
    }
    if (count_ >= max_count_) return nullptr;
    slot.key = key;
    count_++;
    return &slot.value;
  }

  // Begins to load the place of a key that Insert is called with soon: of a large table each look waits for memory.
  // Always inlined, because the compiler takes a function that only does this for one that does nothing.
  [[gnu::always_inline]] void Prefetch(const Key& key) const {
    if (count_ == 0) return;
    const uint64_t hash = HashKey(key);
    __builtin_prefetch(&slots_[hash & (slots_.size() - 1)], 1);
    if (IsMoving()) __builtin_prefetch(&old_[hash & (old_.size() - 1)]);
  }

  size_t count() const { return count_; }

 private:
  struct Slot {
    Key key;
    uint32_t value;
  };

  // Old slots for each Insert: a table of twice the size has all of them long before it must grow itself.
  static constexpr size_t kMovedAtATime = 8;

  static size_t Probe(const Array<Slot>& in, const Key& key) {
    const Slot* slots = in.data();
    const size_t mask = in.size() - 1;
    size_t i = HashKey(key) & mask;
    while (slots[i].value != 0 && !(slots[i].key == key)) i = (i + 1) & mask;
    return i;
  }

  bool IsMoving() const { return moved_ < old_.size(); }

  void Move(size_t most) {
    const size_t end = old_.size() - moved_ < most ? old_.size() : moved_ + most;
    for (; moved_ < end; moved_++) {
      const Slot& slot = old_[moved_];
      if (slot.value != 0) slots_[Probe(slots_, slot.key)] = slot;
    }
    if (IsMoving()) return;
    old_.Release();
    moved_ = 0;
  }

  bool Grow() {
    Array<Slot> bigger(SIZE_MAX / sizeof(Slot));
    const size_t size = slots_.size() == 0 ? 1024 : slots_.size() * 2;
    if (!bigger.Reserve(size)) return false;
    bigger.Resize(size);  // fresh memory: all zero
    if (IsMoving()) Move(old_.size());
    old_.Swap(slots_);
    slots_.Swap(bigger);
    return true;
  }

  Array<Slot> slots_{SIZE_MAX / sizeof(Slot)};
  // While the table grows: its slots of before, of which the first `moved_` are in slots_. All at once would take half
  // a second of millions of entries, in which the ring runs full.
  Array<Slot> old_{SIZE_MAX / sizeof(Slot)};
  size_t moved_ = 0;
  size_t count_ = 0;
  size_t max_count_;
};

}  // namespace gpumemshim

#endif  // GPUMEM_SHIM_BASE_FLAT_TABLE_H_
