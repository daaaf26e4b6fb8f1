// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/python_walk.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <iterator>
#include <utility>

namespace gpumemshim::stack {
namespace {

// Positions and contents in two chains, since each step waits for the one before.
[[gnu::always_inline]] inline uint64_t HashWith(const PythonLayout& layout, const void* frame, uint64_t hash,
                                                uint32_t room) {
  uint64_t contents = kHashSeed;
  for (; frame != nullptr && room > 0; frame = Load<const void*>(frame, layout.frame_previous)) {
    if (layout.frame_owner != 0 && Load<uint8_t>(frame, layout.frame_owner) >= kFirstForeignOwner) continue;
    hash = Append(hash, InstructionOf(layout, frame));
    contents = Append(contents, ContentOf(layout, CodeOf(layout, frame)));
    --room;
  }
  return Mix(hash, contents);
}

// With the layout as a constant it is about fifteen instructions a frame.
template <size_t kIndex>
uint64_t HashKnown(const void* frame, uint64_t hash, uint32_t room) {
  constexpr PythonLayout kLayout = kPythonLayouts[kIndex];
  return HashWith(kLayout, frame, hash, room);
}

// A build that its own table of offsets describes and python_layout.h does not. Written before the first use.
constinit PythonLayout g_other_layout{};

uint64_t HashOther(const void* frame, uint64_t hash, uint32_t room) {
  return HashWith(g_other_layout, frame, hash, room);
}

template <size_t... kIndices>
HashFrames FindHasher(const PythonLayout& layout, std::index_sequence<kIndices...>) {
  HashFrames found = nullptr;
  ((kPythonLayouts[kIndices] == layout ? found = &HashKnown<kIndices> : found), ...);
  return found;
}

}  // namespace

HashFrames FrameHasher(const PythonLayout& layout) {
  const HashFrames known = FindHasher(layout, std::make_index_sequence<std::size(kPythonLayouts)>());
  if (known != nullptr) return known;
  g_other_layout = layout;
  return &HashOther;
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
