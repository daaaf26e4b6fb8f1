// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SeenSet: which definitions this thread has sent. Direct mapped and lossy: an entry that another one pushed out is
// sent again, which the ring allows. All zero is the empty set, so fresh pages need no constructor.
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
  static_assert((kSlots & (kSlots - 1)) == 0, "a power of two");

 public:
  bool Contains(uint64_t hash) const { return slots_[hash & (kSlots - 1)] == hash; }
  void Insert(uint64_t hash) { slots_[hash & (kSlots - 1)] = hash; }
  void Clear() { std::memset(slots_, 0, sizeof slots_); }

 private:
  uint64_t slots_[kSlots];
};

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_SEEN_SET_H_
