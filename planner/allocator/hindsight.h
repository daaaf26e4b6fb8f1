// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What only a whole history tells of its requests, found by one reading of it and used by the next: how much room there
// was, which requests belong together, and why segments went back to CUDA.
//
// Not thread-safe. Nothing fails.

#ifndef GPUMEM_PLANNER_ALLOCATOR_HINDSIGHT_H_
#define GPUMEM_PLANNER_ALLOCATOR_HINDSIGHT_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "trace/stack_table.h"

namespace gpumem::plan {

// RoomBounds: how much memory a device had for what is recorded, where no failed request says it exactly: more than was
// ever in use, and less than would have been when CUDA turned a request down.
//
//   bounds.Used(total);                 // before each event
//   bounds.Refused(total + size);
//   if (bounds.Guess() != 0) ...
class RoomBounds {
 public:
  void Used(uint64_t bytes) { most_ = std::max(most_, bytes); }
  void Refused(uint64_t bytes) { refused_ = std::min(refused_, bytes); }
  // Bytes with which both hold; 0: nothing was turned down, or the two contradict each other.
  uint64_t Guess() const { return refused_ == UINT64_MAX || refused_ <= most_ ? 0 : most_ + (refused_ - most_) / 2; }

 private:
  uint64_t most_ = 0, refused_ = UINT64_MAX;
};

// Hindsight: what only later events of a trace tell of earlier requests; found by one reading of it, used by the next.
// Readings go on until one finds nothing new.
//
//   do {
//     reader.Run(&hindsight);                        // hindsight.Join(1, 2), hindsight.PoolOf(2)
//   } while (hindsight.TakeNew());
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

  // A block of a capture, by its stack. Memory of one capture alone is not the graph's: a workspace that the first one
  // needed and all go on to use.
  void NoteStack(uint64_t capture, uint64_t stack) {
    const auto [known, is_first] = capture_of_stack_.try_emplace(stack, capture);
    if (is_first || known->second == capture || known->second == kSeveral) return;
    known->second = kSeveral;
    is_new_ = true;
  }
  bool IsOfOneCapture(uint64_t stack) const {
    const auto known = capture_of_stack_.find(stack);
    return stack != 0 && known != capture_of_stack_.end() && known->second != kSeveral;
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

  static constexpr uint64_t kSeveral = UINT64_MAX;

  absl::flat_hash_map<uint64_t, uint64_t> capture_of_stack_;
  std::map<uint64_t, uint64_t> joined_;  // later -> earlier
  std::map<uint64_t, uint32_t> numbers_;
  absl::flat_hash_set<uint64_t> late_;
  bool is_new_ = false;
};

// ReleaseReasons: why PyTorch's allocator gave segments back to CUDA, by the stack of the call: to serve a request, or
// since the program emptied the cache. Stacks with Python frames alone, or without names, may not tell.
//
//   ReleaseReasons reasons(&names);
//   if (reasons.Of(batch.stack(i)) == ReleaseReason::kRequest) ...
//
// `names` must outlive it.
enum class ReleaseReason : uint8_t { kUnknown, kRequest, kEmptyCache };

class ReleaseReasons {
 public:
  explicit ReleaseReasons(const StackTable* names) : names_(names) {}
  ReleaseReason Of(uint64_t stack);

 private:
  ReleaseReason OfFrame(uint32_t frame) const;

  const StackTable* names_;
  absl::flat_hash_map<uint64_t, ReleaseReason> known_;
};

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_ALLOCATOR_HINDSIGHT_H_
