// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RoomBounds: how much memory a device had for what is recorded, where no failed request says it exactly: more than was
// ever in use, and less than would have been when CUDA turned a request down. Not thread-safe. Nothing fails.
//
//   bounds.Used(total);                 // before each event
//   bounds.Refused(total + size);
//   if (bounds.Guess() != 0) ...

#ifndef GPUMEM_PLANNER_ALLOCATOR_ROOM_BOUNDS_H_
#define GPUMEM_PLANNER_ALLOCATOR_ROOM_BOUNDS_H_

#include <algorithm>
#include <cstdint>

namespace gpumem::plan {

class RoomBounds {
 public:
  void Used(uint64_t bytes) { most_ = std::max(most_, bytes); }
  void Refused(uint64_t bytes) { refused_ = std::min(refused_, bytes); }
  // Bytes with which both hold; 0: nothing was turned down, or the two contradict each other.
  uint64_t Guess() const { return refused_ == UINT64_MAX || refused_ <= most_ ? 0 : most_ + (refused_ - most_) / 2; }

 private:
  uint64_t most_ = 0, refused_ = UINT64_MAX;
};

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_ALLOCATOR_ROOM_BOUNDS_H_
