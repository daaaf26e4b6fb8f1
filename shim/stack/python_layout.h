// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Where CPython keeps what a frame walk reads, by minor version: offsets in bytes for release builds of x86-64 and
// aarch64 Linux, taken from the public headers of each version. Debug, trace-refs and free-threaded builds shift them
// and are refused (python_interpreter.h).
//
// Thread-safety: constant data. Failure: nullptr for a version that is not in the table.

#ifndef GPUMEM_SHIM_STACK_PYTHON_LAYOUT_H_
#define GPUMEM_SHIM_STACK_PYTHON_LAYOUT_H_

#include <cstdint>

namespace gpumemshim::stack {

// How a frame tells its position in the bytecode.
enum class Position : uint8_t {
  kByteIndex,  // int32: offset in bytes (3.9)
  kUnitIndex,  // int32: offset in two-byte units (3.10)
  kPointer,    // address of the instruction (3.11 and newer)
};

struct PythonLayout {
  uint8_t minor;
  Position position;
  bool has_cframe;           // the thread state points to a C frame that points to the frame
  bool thread_id_is_kernel;  // kernel thread id rather than pthread_t
  uint16_t thread_frame;     // thread state -> frame or C frame
  uint16_t cframe_frame;
  uint16_t thread_id;
  uint16_t frame_previous;
  uint16_t frame_code;
  uint16_t frame_position;
  uint16_t frame_owner;  // 0 = none. From 3.12 on, 3 and above are no Python frames
  uint16_t code_filename;
  uint16_t code_name;
  uint16_t code_qualname;  // the name again where there is none
  uint16_t code_first_line;
  uint16_t code_line_table;
  uint16_t code_bytecode;  // first instruction, for Position::kPointer
  uint16_t ascii_data;     // of a str object that is ASCII
  uint16_t compact_data;   // of one that is not
};

inline constexpr PythonLayout kPythonLayouts[] = {
    {9, Position::kByteIndex, false, false, 24, 0, 176, 24, 32, 104, 0, 104, 112, 112, 40, 120, 0, 48, 72},
    {10, Position::kUnitIndex, false, false, 24, 0, 176, 24, 32, 96, 0, 104, 112, 112, 40, 120, 0, 48, 72},
    {11, Position::kPointer, true, true, 56, 8, 160, 48, 32, 56, 69, 112, 120, 128, 72, 136, 184, 48, 72},
    {12, Position::kPointer, true, true, 56, 0, 144, 8, 0, 56, 70, 112, 120, 128, 68, 136, 192, 40, 56},
    {13, Position::kPointer, false, true, 72, 0, 160, 8, 0, 56, 70, 112, 120, 128, 68, 136, 200, 40, 56},
};

constexpr const PythonLayout* FindPythonLayout(int minor) {
  for (const PythonLayout& layout : kPythonLayouts) {
    if (layout.minor == minor) return &layout;
  }
  return nullptr;
}

// Every object begins with its reference count and its type; sized ones go on with their size.
inline constexpr uint16_t kObjectType = 8;
inline constexpr uint16_t kObjectSize = 16;
inline constexpr uint16_t kStringState = 32;
inline constexpr uint16_t kBytesData = 32;

// Frames of these owners run no Python code: the interpreter's own entry frames.
inline constexpr uint8_t kFirstForeignOwner = 3;

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_PYTHON_LAYOUT_H_
