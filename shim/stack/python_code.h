// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Copies what a code object tells about itself (file, qualified name, first line, line table) into the ring, at its
// first sight. Strings become UTF-8, bounded.
//
// Thread-safety: the code object must be on the calling thread's stack, which keeps it and its strings alive. Failure:
// CodeResult; nothing of the host changes.

#ifndef GPUMEM_SHIM_STACK_PYTHON_CODE_H_
#define GPUMEM_SHIM_STACK_PYTHON_CODE_H_

#include <cstddef>
#include <cstdint>

#include "shim/stack/python_interpreter.h"

namespace gpumemshim::stack {

// Bytes of UTF-8 that are kept of a text; the rest is cut at a character.
inline constexpr size_t kMaxFilename = 1024;
inline constexpr size_t kMaxName = 512;

enum class CodeResult : uint8_t {
  kSent,
  kNoRoom,      // the ring took nothing: try again at the next use
  kUnreadable,  // sent under a made-up name
};

CodeResult SendCode(const Interpreter& python, const void* code, uint64_t key);

struct Text {
  const char* data;
  uint32_t size;  // bytes
};

// A str object as UTF-8, in place where it is ASCII, else converted into `buffer` and cut at a character there.
// False where it is no str that can be read.
bool ReadString(const Interpreter& python, const void* object, char* buffer, size_t capacity, Text* text);

// Appends one code point; returns the bytes written, 0 where there is no room. Surrogates and what is not a code point
// become U+FFFD.
size_t EncodeUtf8(uint32_t code_point, char* out, size_t capacity);

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_PYTHON_CODE_H_
