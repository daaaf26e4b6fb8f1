// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// AddressIndex: address -> place in a vector, for millions of insertions and removals a second. Open addressing with
// linear probing, at most half full; a removal moves later entries up, so there are no tombstones and no decay.
// Copyable value; not thread-safe. Address 0 is not a key.
//
//   AddressIndex index;
//   index.Insert(address, 7);
//   uint32_t place = index.Remove(address);   // 7; kNone where there was none

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_ADDRESS_INDEX_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_ADDRESS_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gpumem {

// Slab<T>: a vector whose places are reused. T has a bool member `live`. Copyable value; not thread-safe.
//
//   Slab<Block> blocks;
//   uint32_t place = blocks.Add(block);  blocks[place].size;  blocks.Remove(place);
template <typename T>
class Slab {
 public:
  uint32_t Add(const T& value) {
    uint32_t place;
    if (!free_.empty()) {
      place = free_.back();
      free_.pop_back();
      values_[place] = value;
    } else {
      place = static_cast<uint32_t>(values_.size());
      values_.push_back(value);
    }
    values_[place].live = true;
    return place;
  }

  void Remove(uint32_t place) {
    values_[place].live = false;
    free_.push_back(place);
  }

  T& operator[](uint32_t place) { return values_[place]; }
  const T& operator[](uint32_t place) const { return values_[place]; }
  size_t size() const { return values_.size() - free_.size(); }
  size_t places() const { return values_.size(); }  // used or not: what a copy, or a look at each, costs

  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const T& value : values_) {
      if (value.live) visit(value);
    }
  }

  // Like ForEach, with the place first.
  template <typename Visit>
  void ForEachPlace(Visit visit) const {
    for (uint32_t place = 0; place < values_.size(); ++place) {
      if (values_[place].live) visit(place, values_[place]);
    }
  }

 private:
  std::vector<T> values_;
  std::vector<uint32_t> free_;
};

class AddressIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t Find(uint64_t address) const { return slots_[Locate(address)].place; }

  // Sets the place of `address`, which must not be in the index.
  void Insert(uint64_t address, uint32_t place) {
    if (2 * (size_ + 1) > slots_.size()) Grow();
    slots_[Locate(address)] = {address, place};
    ++size_;
  }

  uint32_t Remove(uint64_t address) {
    size_t hole = Locate(address);
    const uint32_t place = slots_[hole].place;
    if (place == kNone) return kNone;
    --size_;
    const size_t mask = slots_.size() - 1;
    for (size_t next = (hole + 1) & mask; slots_[next].place != kNone; next = (next + 1) & mask) {
      // An entry may move up to the hole unless its home lies behind the hole.
      if (((next - Home(slots_[next].address)) & mask) < ((next - hole) & mask)) continue;
      slots_[hole] = slots_[next];
      hole = next;
    }
    slots_[hole] = {};
    return place;
  }

  size_t size() const { return size_; }

 private:
  struct Slot {
    uint64_t address = 0;
    uint32_t place = kNone;
  };

  size_t Home(uint64_t address) const { return static_cast<size_t>((address * 0x9E3779B97F4A7C15u) >> shift_); }

  // The slot of `address`, or the empty one where it would go.
  size_t Locate(uint64_t address) const {
    const size_t mask = slots_.size() - 1;
    size_t at = Home(address);
    while (slots_[at].place != kNone && slots_[at].address != address) at = (at + 1) & mask;
    return at;
  }

  void Grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    --shift_;
    for (const Slot& slot : old) {
      if (slot.place != kNone) slots_[Locate(slot.address)] = slot;
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(64);
  uint32_t shift_ = 64 - 6;
  size_t size_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STATE_ADDRESS_INDEX_H_
