// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/python_walk.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <iterator>

namespace gpumemshim::stack {
namespace {

// Positions and contents in two chains, since each step waits for the one before. With the layout as a constant it is
// about fifteen instructions a frame.
template <size_t kIndex>
uint64_t HashFramesOf(const void* frame, uint64_t hash, uint32_t room) {
  constexpr PythonLayout kLayout = kPythonLayouts[kIndex];
  uint64_t contents = kHashSeed;
  for (; frame != nullptr && room > 0; frame = Load<const void*>(frame, kLayout.frame_previous)) {
    if (kLayout.frame_owner != 0 && Load<uint8_t>(frame, kLayout.frame_owner) >= kFirstForeignOwner) continue;
    hash = Append(hash, InstructionOf(kLayout, frame));
    contents = Append(contents, ContentOf(kLayout, Load<const void*>(frame, kLayout.frame_code)));
    --room;
  }
  return Mix(hash, contents);
}

constexpr HashFrames kHashers[] = {&HashFramesOf<0>, &HashFramesOf<1>, &HashFramesOf<2>, &HashFramesOf<3>,
                                   &HashFramesOf<4>};
static_assert(std::size(kHashers) == std::size(kPythonLayouts));

}  // namespace

HashFrames FrameHasher(const PythonLayout& layout) {
  for (size_t i = 0; i < std::size(kPythonLayouts); ++i) {
    if (kPythonLayouts[i].minor == layout.minor) return kHashers[i];
  }
  return nullptr;
}

const void* InnermostPythonFrame(const Interpreter& python) {
  // A finalizing interpreter frees the thread states of other threads, ours may be gone already.
  if (python.is_finalizing != nullptr && python.is_finalizing() != 0 && syscall(SYS_gettid) != getpid()) return nullptr;
  const void* thread = python.this_thread_state();
  if (thread == nullptr) return nullptr;
  const void* frame = Load<const void*>(thread, python.layout.thread_frame);
  if (python.layout.has_cframe && frame != nullptr) frame = Load<const void*>(frame, python.layout.cframe_frame);
  return frame;
}

}  // namespace gpumemshim::stack
