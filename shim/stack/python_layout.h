// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Where CPython keeps what a frame walk reads, by minor version: offsets in bytes for x86-64 and aarch64 Linux, taken
// from the public headers of each version. Debug builds (Py_DEBUG) have the same; Py_TRACE_REFS and free-threaded
// builds shift them and are refused (python_interpreter.h).
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
  uint8_t minor = 0;
  Position position = Position::kPointer;
  bool has_cframe = false;          // the thread state points to a C frame that points to the frame
  bool thread_id_is_kernel = true;  // kernel thread id, the pthread_t in front of it; else a pthread_t
  uint8_t code_tag = 0;             // low bits that a frame's pointer to its code may carry (3.14 and newer)
  bool line_table_is_hashed = false;
  uint16_t thread_frame = 0;  // thread state -> frame or C frame
  uint16_t cframe_frame = 0;
  uint16_t thread_id = 0;
  uint16_t frame_previous = 0;
  uint16_t frame_code = 0;
  uint16_t frame_position = 0;
  uint16_t frame_locals = 0;  // the first local variable; its pointer may carry tag bits where that to the code may
  uint16_t frame_owner = 0;   // 0 = none. From 3.12 on, 3 and above are no Python frames
  uint16_t code_filename = 0;
  uint16_t code_name = 0;
  uint16_t code_qualname = 0;  // the name again where there is none
  uint16_t code_first_line = 0;
  uint16_t code_line_table = 0;
  uint16_t code_version = 0;          // uint32: each code object's own serial number; 0 = the version has none
  uint16_t code_instructions = 0;     // the bytes object of the instructions; 0 = they lie in the code object
  uint16_t code_bytecode = 0;         // first instruction, for Position::kPointer
  uint16_t code_first_traceable = 0;  // int32, in units: a frame before it has not begun; for Position::kPointer
  uint16_t ascii_data = 0;            // of a str object that is ASCII
  uint16_t compact_data = 0;          // of one that is not

  bool operator==(const PythonLayout&) const = default;
};

inline constexpr PythonLayout kPython39 = {
    .minor = 9,
    .position = Position::kByteIndex,
    .thread_id_is_kernel = false,
    .thread_frame = 24,
    .thread_id = 176,
    .frame_previous = 24,
    .frame_code = 32,
    .frame_position = 104,
    .frame_locals = 360,
    .code_filename = 104,
    .code_name = 112,
    .code_qualname = 112,
    .code_first_line = 40,
    .code_line_table = 120,
    .code_instructions = 48,
    .ascii_data = 48,
    .compact_data = 72,
};

constexpr PythonLayout Python310() {
  PythonLayout layout = kPython39;
  layout.minor = 10;
  layout.position = Position::kUnitIndex;
  layout.line_table_is_hashed = true;
  layout.frame_position = 96;
  layout.frame_locals = 352;
  return layout;
}

inline constexpr PythonLayout kPython311 = {
    .minor = 11,
    .has_cframe = true,
    .line_table_is_hashed = true,
    .thread_frame = 56,
    .cframe_frame = 8,
    .thread_id = 160,
    .frame_previous = 48,
    .frame_code = 32,
    .frame_position = 56,
    .frame_locals = 72,
    .frame_owner = 69,
    .code_filename = 112,
    .code_name = 120,
    .code_qualname = 128,
    .code_first_line = 72,
    .code_line_table = 136,
    .code_bytecode = 184,
    .code_first_traceable = 168,
    .ascii_data = 48,
    .compact_data = 72,
};

constexpr PythonLayout Python312() {
  PythonLayout layout = kPython311;
  layout.minor = 12;
  layout.cframe_frame = 0;
  layout.thread_id = 144;
  layout.frame_previous = 8;
  layout.frame_code = 0;
  layout.frame_owner = 70;
  layout.code_first_line = 68;
  layout.code_version = 92;
  layout.code_bytecode = 192;
  layout.code_first_traceable = 176;
  layout.ascii_data = 40;
  layout.compact_data = 56;
  return layout;
}

constexpr PythonLayout Python313() {
  PythonLayout layout = Python312();
  layout.minor = 13;
  layout.has_cframe = false;
  layout.thread_frame = 72;
  layout.thread_id = 160;
  layout.code_bytecode = 200;
  layout.code_first_traceable = 184;
  return layout;
}

constexpr PythonLayout Python314() {
  PythonLayout layout = Python313();
  layout.minor = 14;
  layout.code_tag = 3;
  layout.frame_locals = 80;
  layout.frame_owner = 74;
  layout.code_bytecode = 208;
  layout.code_first_traceable = 192;
  return layout;
}

constexpr PythonLayout Python315() {
  PythonLayout layout = Python314();
  layout.minor = 15;
  layout.thread_id = 184;
  return layout;
}

inline constexpr PythonLayout kPythonLayouts[] = {kPython39,   Python310(), kPython311, Python312(),
                                                  Python313(), Python314(), Python315()};

constexpr const PythonLayout* FindPythonLayout(int minor) {
  for (const PythonLayout& layout : kPythonLayouts) {
    if (layout.minor == minor) return &layout;
  }
  return nullptr;
}

// Every object begins with its reference count and its type; sized ones go on with their size. Strings and bytes keep
// their hash once it was asked for.
inline constexpr uint16_t kObjectType = 8;
inline constexpr uint16_t kObjectSize = 16;
inline constexpr uint16_t kTextHash = 24;
inline constexpr uint16_t kStringState = 32;
inline constexpr uint32_t kStringCompact = 1u << 5;  // in the state: the characters lie behind the object's head
inline constexpr uint16_t kBytesData = 32;
inline constexpr uint16_t kTypeDestructor = 48;  // of a type object

// Owners of a frame. From kFirstForeignOwner on it runs no Python code: the interpreter's own entry frames.
inline constexpr uint8_t kGeneratorOwner = 1;
inline constexpr uint8_t kFirstForeignOwner = 3;

inline constexpr uint32_t kCodeUnit = 2;  // bytes of one unit of bytecode

// The table of offsets that CPython 3.13 and newer carry for debuggers at the start of `_PyRuntime`: the truth about
// the build at hand, where python_layout.h knows only what releases have. The table is not the same in any two
// versions, so it is read by version.
//
//   word 0  "xdebugpy"   word 1  PY_VERSION_HEX   word 2  1 = free-threaded   then the offsets, structure by structure
//
// Thread-safety: pure, reads checked. Failure: a text that says why the table cannot be used.
//
//   PythonLayout layout = *FindPythonLayout(13);
//   const char* why = ReadDebugOffsets(runtime, &layout);   // "" = layout is this build's

inline constexpr int kFirstWithDebugOffsets = 13;

// `layout` comes in as the version's from the table and goes out as the build's; it is unchanged where the text is not
// empty. The text is constant.
const char* ReadDebugOffsets(const void* runtime, PythonLayout* layout);

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_PYTHON_LAYOUT_H_
