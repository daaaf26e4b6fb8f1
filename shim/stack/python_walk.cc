// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/python_walk.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <iterator>
#include <utility>

namespace gpumemshim::stack {
namespace {

template <typename Value>
[[gnu::always_inline]] inline uint64_t Walk(const PythonLayout& layout, const PythonFrames& frames, uint32_t room,
                                            Value value) {
  uint64_t hash = kHashSeed;
  const void* frame = frames.innermost;
  for (; frame != frames.outside && frame != nullptr && room > 0;
       frame = Load<const void*>(frame, layout.frame_previous)) {
    if (IsForeign(layout, frame)) continue;
    hash = Append(hash, value(frame));
    --room;
  }
  return hash;
}

[[gnu::always_inline]] inline uint64_t Positions(const PythonLayout& layout, const PythonFrames& frames,
                                                 uint32_t room) {
  const ModuleCall call = GetModuleCall();
  return Walk(layout, frames, room, [&](const void* at) {
    const uint64_t instruction = InstructionOf(layout, at);
    if (!IsModuleCall(layout, call, at, instruction)) [[likely]]
      return instruction;
    return instruction + Rotate(reinterpret_cast<uint64_t>(FirstLocal(layout, at)), 24);
  });
}

[[gnu::always_inline]] inline uint64_t Contents(const PythonLayout& layout, const PythonFrames& frames, uint32_t room) {
  return Walk(layout, frames, room, [&](const void* at) { return ContentOf(layout, CodeOf(layout, at)); });
}

// With the layout as a constant the walk of positions is less than ten instructions a frame.
template <size_t kIndex>
struct Known {
  static constexpr PythonLayout kLayout = kPythonLayouts[kIndex];
  static uint64_t HashPositions(const PythonFrames& frames, uint32_t room) { return Positions(kLayout, frames, room); }
  static uint64_t HashContents(const PythonFrames& frames, uint32_t room) { return Contents(kLayout, frames, room); }
};

// A build that its own table of offsets describes and python_layout.h does not. Written before the first use.
constinit PythonLayout g_other_layout{};

struct Other {
  static uint64_t HashPositions(const PythonFrames& frames, uint32_t room) {
    return Positions(g_other_layout, frames, room);
  }
  static uint64_t HashContents(const PythonFrames& frames, uint32_t room) {
    return Contents(g_other_layout, frames, room);
  }
};

template <typename Layout>
constexpr HashFrames HashesOf() {
  return {&Layout::HashPositions, &Layout::HashContents};
}

template <size_t... kIndices>
HashFrames Find(const PythonLayout& layout, std::index_sequence<kIndices...>) {
  HashFrames found{nullptr, nullptr};
  ((kPythonLayouts[kIndices] == layout ? found = HashesOf<Known<kIndices>>() : found), ...);
  return found;
}

}  // namespace

HashFrames FrameHashes(const PythonLayout& layout) {
  const HashFrames known = Find(layout, std::make_index_sequence<std::size(kPythonLayouts)>());
  if (known.positions != nullptr) return known;
  g_other_layout = layout;
  return HashesOf<Other>();
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
