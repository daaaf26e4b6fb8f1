// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The stack behind an event: one hash of the native frames and the Python frames; the frames themselves are sent to the
// ring when this thread meets the hash for the first time.
//
//   innermost   c10::cuda::...::malloc      native, up to the innermost run of the interpreter's loop
//               at::native::empty
//               Linear.forward              Python, all of them
//   outermost   <module>
//
// Inside the backward pass of an autograd node it ends at the engine and goes on in the stack with which the forward
// pass made the node, behind a mark (autograd_nodes.h).
//
// Without Python frames the whole native stack, at most kMaxNative frames. The interpreter's own C frames between
// Python frames are left out, since they tell nothing that the Python frames do not; NativeDepth::kFull has them too
// (mixed_frames.h). A stack that goes on beyond what was recorded ends with a frame that says so.
//
// Thread-safety: any thread. No lock, no heap, no GIL; errno is kept. Failure: hash 0, "no stack".
//
//   event.stack = stack::Capture();

#ifndef GPUMEM_SHIM_STACK_CAPTURE_H_
#define GPUMEM_SHIM_STACK_CAPTURE_H_

#include <atomic>
#include <cstdint>

#include "shim/stack/native_unwind.h"

namespace gpumemshim::stack {

inline constexpr uint32_t kMaxNative = 256;

struct Options {
  bool python = true;
  Unwinder unwinder = Unwinder::kLibunwind;
  NativeDepth native = NativeDepth::kCut;
  bool autograd = true;      // nodes of the backward pass (autograd_nodes.h)
  bool free_stacks = false;  // frees of PyTorch's allocator too
};

// At set-up, outside of any allocator's lock: loads the unwinder and looks for the interpreter.
void Enable(const Options& options);

uint64_t Capture();

extern std::atomic<bool> g_free_stacks;
inline bool FreesHaveStacks() { return g_free_stacks.load(std::memory_order_relaxed); }

// The Python frames alone: where the forward pass makes an autograd node.
uint64_t CapturePython();

// In a forked child: nothing of what was sent is in a ring of its own.
void ForgetInChild();

struct Losses {
  uint64_t truncated_stacks;
  uint64_t unread_python_frames;
};
Losses GetLosses();

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_CAPTURE_H_
