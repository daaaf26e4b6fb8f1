// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Numbers: names for things that live, from 0, each used again as soon as its thing is gone. Not thread-safe.
//
//   const uint64_t number = numbers.Take();
//   numbers.Return(number);

#ifndef GPUMEM_PLANNER_ALLOCATOR_NUMBERS_H_
#define GPUMEM_PLANNER_ALLOCATOR_NUMBERS_H_

#include <cstdint>
#include <vector>

namespace gpumem::plan {

class Numbers {
 public:
  uint64_t Take() {
    if (free_.empty()) return next_++;
    const uint64_t number = free_.back();
    free_.pop_back();
    return number;
  }
  void Return(uint64_t number) { free_.push_back(number); }
  // In use at once, at most.
  uint64_t most() const { return next_; }

 private:
  uint64_t next_ = 0;
  std::vector<uint64_t> free_;
};

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_ALLOCATOR_NUMBERS_H_
