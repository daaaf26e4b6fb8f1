// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// KeyIndex: (space, key) -> place, for things that come and go. Open addressing with linear probing, at most half full;
// a removal moves later entries up, so that there is no decay. In memory of its own.
//
// Thread-safety: one thread at a time. Failure: Insert returns false without memory.
//
//   index.Insert(kPointers, address, 7);
//   index.Remove(kPointers, address);   // 7; kNone where there was none

#ifndef GPUMEM_SHIM_WRITER_KEY_INDEX_H_
#define GPUMEM_SHIM_WRITER_KEY_INDEX_H_

#include <cstdint>

#include "shim/base/buffer.h"
#include "shim/base/flat_table.h"

namespace gpumemshim::writer {

class KeyIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t Find(uint8_t space, uint64_t key) const {
    if (count_ == 0) return kNone;
    const Slot& slot = slots_[Locate(slots_, space, key)];
    return slot.space == 0 ? kNone : slot.place;
  }

  // (space, key) must not be there. space is not 0.
  bool Insert(uint8_t space, uint64_t key, uint32_t place) {
    if (2 * (count_ + 1) > slots_.size() && !Grow()) return false;
    slots_[Locate(slots_, space, key)] = {key, place, space};
    count_++;
    return true;
  }

  uint32_t Remove(uint8_t space, uint64_t key) {
    if (count_ == 0) return kNone;
    size_t hole = Locate(slots_, space, key);
    if (slots_[hole].space == 0) return kNone;
    const uint32_t place = slots_[hole].place;
    const size_t mask = slots_.size() - 1;
    for (size_t next = (hole + 1) & mask; slots_[next].space != 0; next = (next + 1) & mask) {
      // An entry may move up to the hole unless its home lies behind the hole.
      if (((next - Home(slots_, slots_[next].space, slots_[next].key)) & mask) < ((next - hole) & mask)) continue;
      slots_[hole] = slots_[next];
      hole = next;
    }
    slots_[hole] = {};
    count_--;
    return place;
  }

 private:
  struct Slot {
    uint64_t key;
    uint32_t place;
    uint8_t space;  // 0 = empty
  };

  static size_t Home(const Array<Slot>& slots, uint8_t space, uint64_t key) {
    return MixBits(key + (uint64_t{space} << 56)) & (slots.size() - 1);
  }
  static size_t Locate(const Array<Slot>& slots, uint8_t space, uint64_t key) {
    size_t at = Home(slots, space, key);
    while (slots[at].space != 0 && !(slots[at].key == key && slots[at].space == space))
      at = (at + 1) & (slots.size() - 1);
    return at;
  }

  bool Grow() {
    const size_t size = slots_.size() == 0 ? 1024 : slots_.size() * 2;
    Array<Slot> bigger;
    if (!bigger.Reserve(size)) return false;
    bigger.Resize(size);  // fresh memory: all zero
    for (size_t i = 0; i < slots_.size(); i++) {
      const Slot& slot = slots_[i];
      if (slot.space != 0) bigger[Locate(bigger, slot.space, slot.key)] = slot;
    }
    slots_.Swap(bigger);
    return true;
  }

  Array<Slot> slots_;
  size_t count_ = 0;
};

}  // namespace gpumemshim::writer

#endif  // GPUMEM_SHIM_WRITER_KEY_INDEX_H_
