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
#include "shim/stack/module_objects.h"
#include "shim/stack/python_interpreter.h"

namespace gpumemshim::stack {

// The innermost frame, nullptr where this thread runs no Python.
const void* InnermostPythonFrame(const Interpreter& python);

struct PythonPosition {
  const void* code;
  uint64_t key;
  uint32_t instruction;
  const void* object;  // whose call the frame runs (module_objects.h), or nullptr
};

// A frame of the interpreter's own, which runs no Python code; from 3.12 on.
[[gnu::always_inline]] inline bool IsForeign(const PythonLayout& layout, const void* frame) {
  return layout.minor >= 12 && Load<uint8_t>(frame, layout.frame_owner) >= kFirstForeignOwner;
}

// What a frame points to may carry tag bits from 3.14 on.
[[gnu::always_inline]] inline const void* CodeOf(const PythonLayout& layout, const void* frame) {
  return reinterpret_cast<const void*>(Load<uintptr_t>(frame, layout.frame_code) & ~uintptr_t{layout.code_tag});
}

// The first local variable of a frame.
[[gnu::always_inline]] inline const void* FirstLocal(const PythonLayout& layout, const void* frame) {
  return reinterpret_cast<const void*>(Load<uintptr_t>(frame, layout.frame_locals) & ~uintptr_t{layout.code_tag});
}

// A line table. From 3.10 on the compiler leaves its hash in it, and no other one is ever dropped while its module
// lives. Before, its size and ends must do.
[[gnu::always_inline]] inline uint64_t SampleOfTable(const PythonLayout& layout, const void* table) {
  if (layout.line_table_is_hashed) return Load<uint64_t>(table, kTextHash);
  const auto size = Load<uint64_t>(table, kObjectSize);
  const uint64_t ends = Append(Load<uint64_t>(table, kBytesData), Load<uint64_t>(table, kBytesData - 8 + size));
  return Append(ends, size);
}

// A file name: its size and its end. Only a compact str has its characters behind it.
[[gnu::always_inline]] inline uint64_t SampleOfFile(const PythonLayout& layout, const void* name) {
  const auto size = Load<uint64_t>(name, kObjectSize);
  const uint64_t end = (Load<uint32_t>(name, kStringState) & kStringCompact) != 0 ? size : 0;
  return Load<uint64_t>(name, layout.ascii_data - 8 + end) ^ Rotate(size, 48);
}

// What tells a code object from another one at the same address. From 3.12 on that is its serial number. Before, memory
// of a dropped code object and of all that it pointed to is used again at once, so only their contents tell: first
// line, file name, name (whose hash is set) and line table.
[[gnu::always_inline]] inline uint64_t ContentOf(const PythonLayout& layout, const void* code) {
  if (layout.code_version != 0) {
    return uint64_t{Load<uint32_t>(code, layout.code_first_line)} << 32 | Load<uint32_t>(code, layout.code_version);
  }
  // Hashes may be combined bit by bit; pointers, numbers and text would cancel each other out, so they are multiplied.
  const void* filename = Load<const void*>(code, layout.code_filename);
  const uint64_t place =
      Load<uint64_t>(code, layout.code_first_line) + Rotate(reinterpret_cast<uint64_t>(filename), 32);
  const uint64_t file = Append(Append(0, place), SampleOfFile(layout, filename));
  const uint64_t names = Load<uint64_t>(Load<const void*>(code, layout.code_name), kTextHash) ^
                         Rotate(SampleOfTable(layout, Load<const void*>(code, layout.code_line_table)), 32);
  return file + names + Rotate(Load<uint64_t>(code, layout.code_qualname), 20);
}

// Where the innermost frame stands: one number for each instruction of the process. 0 for no frame.
inline uint64_t InstructionOf(const PythonLayout& layout, const void* frame) {
  if (layout.position == Position::kPointer) return Load<uint64_t>(frame, layout.frame_position);
  const auto index = static_cast<uint64_t>(Load<int32_t>(frame, layout.frame_position));
  return Load<uint64_t>(frame, layout.frame_code) + Rotate(index, 48);
}

// Whether the frame, standing at this instruction, is a call of a module.
[[gnu::always_inline]] inline bool IsModuleCall(const PythonLayout& layout, const ModuleCall& call, const void* frame,
                                                uint64_t instruction) {
  if (layout.position == Position::kPointer) return instruction - call.start < call.size;
  return Load<uint64_t>(frame, layout.frame_code) == call.code && call.code != 0;
}

inline PythonPosition PositionOf(const PythonLayout& layout, const void* frame, const void* code) {
  const bool is_call = IsModuleCall(layout, GetModuleCall(), frame, InstructionOf(layout, frame));
  PythonPosition position{code, 0, 0, is_call ? FirstLocal(layout, frame) : nullptr};
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

// A frame that the interpreter is still setting up: it has not come to its function's first line, and the interpreter
// does not show it either.
inline bool HasBegun(const PythonLayout& layout, const void* frame, const PythonPosition& position) {
  if (layout.code_first_traceable == 0 || Load<uint8_t>(frame, layout.frame_owner) == kGeneratorOwner) return true;
  const auto first = Load<int32_t>(position.code, layout.code_first_traceable);
  const auto bytecode = reinterpret_cast<uintptr_t>(position.code) + layout.code_bytecode;
  const auto at = static_cast<int64_t>(Load<uintptr_t>(frame, layout.frame_position) - bytecode);
  return at >= int64_t{first} * kCodeUnit;
}

// Calls visit(position) for each Python frame from `frame` outwards until it returns false.
template <typename Visit>
inline void ForEachPythonFrame(const PythonLayout& layout, const void* frame, Visit visit) {
  for (; frame != nullptr; frame = Load<const void*>(frame, layout.frame_previous)) {
    if (IsForeign(layout, frame)) continue;
    const PythonPosition position = PositionOf(layout, frame, CodeOf(layout, frame));
    if (HasBegun(layout, frame, position) && !visit(position)) return;
  }
}

// The walks of every event, compiled for each layout.
HashFrames FrameHashes(const PythonLayout& layout);

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_PYTHON_WALK_H_
