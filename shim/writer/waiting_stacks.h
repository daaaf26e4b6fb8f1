// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// WaitingStacks: copies of stacks that cannot be added yet.
//
// Thread-safety: the writer thread only. Failure: Add returns false without memory, or past a bound.
//
//   if (!waiting.Add(stack)) ...
//   for (ring::StackView stack; waiting.Next(&stack);) ...
//   waiting.Clear();

#ifndef GPUMEM_SHIM_WRITER_WAITING_STACKS_H_
#define GPUMEM_SHIM_WRITER_WAITING_STACKS_H_

#include "shim/base/buffer.h"
#include "shim/ring/reader.h"

namespace gpumemshim::writer {

class WaitingStacks {
 public:
  bool Add(const ring::StackView& stack) {
    const size_t first = frames_.size();
    if (first + stack.count > kMaxFrames || !frames_.Reserve(first + stack.count)) return false;
    if (!stacks_.Push({stack.hash, first, stack.count})) return false;
    frames_.Resize(first + stack.count);
    for (uint32_t i = 0; i < stack.count; i++) frames_[first + i] = stack.frames[i];
    return true;
  }

  bool Next(ring::StackView* stack) {
    if (next_ == stacks_.size()) return false;
    const Waiting& waiting = stacks_[next_++];
    *stack = {waiting.hash, &frames_[waiting.first_frame], waiting.count};
    return true;
  }

  void Clear() {
    stacks_.Clear();
    frames_.Clear();
    next_ = 0;
  }

 private:
  static constexpr size_t kMaxFrames = size_t{1} << 20;
  struct Waiting {
    uint64_t hash;
    size_t first_frame;
    uint32_t count;
  };
  Array<Waiting> stacks_;
  Array<ring::RawFrame> frames_;
  size_t next_ = 0;
};

}  // namespace gpumemshim::writer

#endif  // GPUMEM_SHIM_WRITER_WAITING_STACKS_H_
