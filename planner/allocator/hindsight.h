// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Hindsight: what only later events of a trace tell of earlier requests; found by one reading of it, used by the next.
// Readings go on until one finds nothing new. Not thread-safe. Nothing fails.
//
//   do {
//     reader.Run(&hindsight);                        // hindsight.Join(1, 2), hindsight.PoolOf(2)
//   } while (hindsight.TakeNew());

#ifndef GPUMEM_PLANNER_ALLOCATOR_HINDSIGHT_H_
#define GPUMEM_PLANNER_ALLOCATOR_HINDSIGHT_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace gpumem::plan {

class Hindsight {
 public:
  // Which captures of CUDA graphs share a private pool: those whose blocks lie in one segment. Numbered from 1.
  uint32_t PoolOf(uint64_t capture) {
    return numbers_.try_emplace(Root(capture), static_cast<uint32_t>(numbers_.size()) + 1).first->second;
  }
  void Join(uint64_t a, uint64_t b) {
    const uint64_t first = Root(a), second = Root(b);
    if (first == second) return;
    joined_[std::max(first, second)] = std::min(first, second);
    is_new_ = true;
  }

  // Frees, by their number, after which the block was in use for a while.
  void AddLate(uint64_t free) { is_new_ |= late_.insert(free).second; }
  bool IsLate(uint64_t free) const { return late_.contains(free); }

  // Whether something was found since the last call. What is numbered is numbered anew then.
  bool TakeNew() {
    if (is_new_) numbers_.clear();
    return std::exchange(is_new_, false);
  }

 private:
  uint64_t Root(uint64_t capture) const {
    for (auto at = joined_.find(capture); at != joined_.end(); at = joined_.find(capture)) capture = at->second;
    return capture;
  }

  std::map<uint64_t, uint64_t> joined_;  // later -> earlier
  std::map<uint64_t, uint32_t> numbers_;
  absl::flat_hash_set<uint64_t> late_;
  bool is_new_ = false;
};

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_ALLOCATOR_HINDSIGHT_H_
