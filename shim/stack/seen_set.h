// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SeenSet: which definitions this thread has sent. Sets of a cache line, eight ways, and lossy: an entry that others
// pushed out is sent again, which the ring allows, but costs a hundred times as much as finding it. Direct mapped, a
// third of the stacks of a step of GPT-2 pushed each other out at every step. All zero is the empty set, so fresh pages
// need no constructor.
//
// Thread-safety: one thread. Failure: forgets.
//
//   if (!set.Contains(hash) && Send(hash)) set.Insert(hash);

#ifndef GPUMEM_SHIM_STACK_SEEN_SET_H_
#define GPUMEM_SHIM_STACK_SEEN_SET_H_

#include <cstdint>
#include <cstring>

namespace gpumemshim::stack {

template <uint32_t kSlots>
class SeenSet {
  static constexpr uint32_t kWays = 8;
  static_assert((kSlots & (kSlots - 1)) == 0 && kSlots >= kWays, "a power of two");

 public:
  static constexpr uint32_t kSets = kSlots / kWays;

  bool Contains(uint64_t hash) const {
    for (const uint64_t slot : sets_[hash & (kSets - 1)].slots) {
      if (slot == hash) return true;
      if (slot == 0) return false;
    }
    return false;
  }

  // Pushes out what came into its set first.
  void Insert(uint64_t hash) {
    uint64_t* slots = sets_[hash & (kSets - 1)].slots;
    std::memmove(slots + 1, slots, (kWays - 1) * sizeof *slots);
    slots[0] = hash;
  }

  void Clear() { std::memset(sets_, 0, sizeof sets_); }

 private:
  struct alignas(64) Set {
    uint64_t slots[kWays];  // newest first
  };
  Set sets_[kSets];
};

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_SEEN_SET_H_
