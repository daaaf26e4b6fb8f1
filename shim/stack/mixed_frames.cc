// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/mixed_frames.h"

#include "shim/stack/memory_read.h"

namespace gpumemshim::stack {
namespace {

// 3.11 marks entry frames by a flag in front of the owner. From 3.12 on an entry frame's caller is a frame of the
// interpreter's own, which lies on the C stack.
constexpr uint16_t kEntryFlagOf311 = 68;

}  // namespace

PythonCursor::PythonCursor(const PythonLayout& layout, const PythonFrames& frames)
    : layout_(layout), frame_(frames.innermost), outside_(frames.outside) {
  SkipForeign();
}

PythonPosition PythonCursor::Position() const { return PositionOf(layout_, frame_, CodeOf(layout_, frame_)); }

bool PythonCursor::HasBegun() const { return stack::HasBegun(layout_, frame_, Position()); }

void PythonCursor::SkipForeign() {
  while (!AtEnd() && IsForeign(layout_, frame_)) frame_ = Load<const void*>(frame_, layout_.frame_previous);
}

bool PythonCursor::IsEntry() const {
  if (layout_.minor <= 10) return true;
  if (layout_.minor == 11) return Load<uint8_t>(frame_, kEntryFlagOf311) != 0;
  const void* caller = Load<const void*>(frame_, layout_.frame_previous);
  return caller == nullptr || IsForeign(layout_, caller);
}

void PythonCursor::Next() {
  frame_ = Load<const void*>(frame_, layout_.frame_previous);
  SkipForeign();
}

}  // namespace gpumemshim::stack
