// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The calling thread's own Python frames, innermost first, read without the GIL. Safe because this thread is inside a
// C call: nobody else changes its frames, and each frame holds its code object.
//
// A frame is (code key, byte offset of the instruction). The key mixes the code object's address with words of its
// content, so that another code object at a reused address has another key.
//
// Thread-safety: the calling thread's frames only. Failure: no frames.

#ifndef GPUMEM_SHIM_STACK_PYTHON_WALK_H_
#define GPUMEM_SHIM_STACK_PYTHON_WALK_H_

#include <cstdint>

#include "shim/stack/hash.h"
#include "shim/stack/memory_read.h"
#include "shim/stack/python_interpreter.h"

namespace gpumemshim::stack {

// The innermost frame, nullptr where this thread runs no Python.
const void* InnermostPythonFrame(const Interpreter& python);

struct PythonPosition {
  const void* code;
  uint64_t key;
  uint32_t instruction;
};

// First line and what follows it, file name and name: one or two cache lines of the code object.
[[gnu::always_inline]] inline uint64_t ContentOf(const PythonLayout& layout, const void* code) {
  return Load<uint64_t>(code, layout.code_first_line) ^ Rotate(Load<uint64_t>(code, layout.code_filename), 24) ^
         Rotate(Load<uint64_t>(code, layout.code_name), 40);
}

inline PythonPosition PositionOf(const PythonLayout& layout, const void* frame, const void* code) {
  PythonPosition position{code, 0, 0};
  position.key = Mix(reinterpret_cast<uint64_t>(code), ContentOf(layout, code)) | 1;  // never 0
  if (layout.position == Position::kPointer) {
    const int64_t offset = Load<int64_t>(frame, layout.frame_position) -
                           static_cast<int64_t>(reinterpret_cast<uintptr_t>(code) + layout.code_bytecode);
    position.instruction = offset < 0 ? 0 : static_cast<uint32_t>(offset);  // before its first instruction
  } else {
    const auto index = Load<int32_t>(frame, layout.frame_position);
    const int32_t scale = layout.position == Position::kUnitIndex ? 2 : 1;
    position.instruction = index < 0 ? 0 : static_cast<uint32_t>(index * scale);
  }
  return position;
}

// Calls visit(position) for each Python frame from `frame` outwards until it returns false.
template <typename Visit>
inline void ForEachPythonFrame(const PythonLayout& layout, const void* frame, Visit visit) {
  for (; frame != nullptr; frame = Load<const void*>(frame, layout.frame_previous)) {
    if (layout.frame_owner != 0 && Load<uint8_t>(frame, layout.frame_owner) >= kFirstForeignOwner) continue;
    if (!visit(PositionOf(layout, frame, Load<const void*>(frame, layout.frame_code)))) return;
  }
}

// Where the innermost frame stands: one number for each instruction of the process. 0 for no frame.
inline uint64_t InstructionOf(const PythonLayout& layout, const void* frame) {
  if (layout.position == Position::kPointer) return Load<uint64_t>(frame, layout.frame_position);
  const auto index = static_cast<uint64_t>(Load<int32_t>(frame, layout.frame_position));
  return Load<uint64_t>(frame, layout.frame_code) + Rotate(index, 48);
}

// The walk of every event, compiled for each layout.
HashFrames FrameHasher(const PythonLayout& layout);

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_PYTHON_WALK_H_
