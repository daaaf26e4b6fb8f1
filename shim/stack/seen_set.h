// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SeenSet: which definitions this thread has sent. Lossy: one that others pushed out is sent again, which the ring
// allows, but costs a hundred times as much as finding it. All zero is the empty set, so fresh pages need no
// constructor.
//
// Thread-safety: one thread. Failure: forgets.
//
//   if (!set.Contains(hash) && Send(hash)) set.Insert(hash);

#ifndef GPUMEM_SHIM_STACK_SEEN_SET_H_
#define GPUMEM_SHIM_STACK_SEEN_SET_H_

#include <cstdint>

#include "shim/stack/successor_cache.h"

namespace gpumemshim::stack {

// Hashes are not 0.
template <uint32_t kSlots>
class SeenSet {
 public:
  bool Contains(uint64_t hash) {
    return seen_.Find(hash, [](Nothing) { return true; }) != nullptr;
  }
  void Insert(uint64_t hash) { seen_.Add(hash)->key = hash; }
  void Clear() { seen_.Clear(); }

 private:
  struct Nothing {};
  SuccessorCache<kSlots, Nothing> seen_;
};

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_SEEN_SET_H_
