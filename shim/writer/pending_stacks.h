// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PendingStacks: copies of stacks that cannot be added yet. One waits for this pass and the next, no longer.
//
// Thread-safety: the writer thread only. Failure: Add returns false without memory, or past a bound.
//
//   if (!pending.Add(stack)) ...
//   pending.Visit([&](const ring::StackView& stack, bool last) { return last || Known(stack) ? Use(stack) : false; });

#ifndef GPUMEM_SHIM_WRITER_PENDING_STACKS_H_
#define GPUMEM_SHIM_WRITER_PENDING_STACKS_H_

#include "shim/base/buffer.h"
#include "shim/ring/reader.h"

namespace gpumemshim::writer {

class PendingStacks {
 public:
  bool Add(const ring::StackView& stack) {
    const size_t first = frames_.size();
    if (first + stack.count > kMaxFrames || !frames_.Reserve(first + stack.count)) return false;
    if (!stacks_.Push({stack.hash, first, stack.count})) return false;
    frames_.Resize(first + stack.count);
    for (uint32_t i = 0; i < stack.count; i++) frames_[first + i] = stack.frames[i];
    return true;
  }

  bool empty() const { return stacks_.size() == 0; }

  // Calls take(stack, last) for each and keeps those for which it returns false. `last`: it has waited long enough.
  template <typename Take>
  void Visit(Take take) {
    size_t kept = 0, kept_frames = 0;
    for (size_t i = 0; i < stacks_.size(); i++) {
      Pending pending = stacks_[i];
      if (take(ring::StackView{pending.hash, &frames_[pending.first_frame], pending.count}, i < old_)) continue;
      for (uint32_t k = 0; k < pending.count; k++) frames_[kept_frames + k] = frames_[pending.first_frame + k];
      pending.first_frame = kept_frames;
      kept_frames += pending.count;
      stacks_[kept++] = pending;
    }
    stacks_.Resize(kept);
    frames_.Resize(kept_frames);
    old_ = kept;
  }

 private:
  static constexpr size_t kMaxFrames = size_t{1} << 20;
  struct Pending {
    uint64_t hash;
    size_t first_frame;
    uint32_t count;
  };
  Array<Pending> stacks_;
  Array<ring::RawFrame> frames_;
  size_t old_ = 0;  // those in front were there at the last visit
};

}  // namespace gpumemshim::writer

#endif  // GPUMEM_SHIM_WRITER_PENDING_STACKS_H_
