// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The Python interpreter of this process, if there is one that we can read: its functions (looked up, never linked),
// its layout, and the code range of its evaluation loop.
//
// Nothing here takes the GIL or calls anything that does. The layout comes from the table of offsets that the build
// carries (3.13 and newer) or from what its version is known to have, and is believed only after one known stack was
// walked with checked reads and every object on it had the type that the layout promises.
//
// Thread-safety: FindInterpreter and the accessors from any thread; found state is published once and constant after.
// Failure: no interpreter, so no Python frames; Refusal() says why.
//
//   if (const Interpreter* python = FindInterpreter()) { void* thread = python->this_thread_state(); ... }

#ifndef GPUMEM_SHIM_STACK_PYTHON_INTERPRETER_H_
#define GPUMEM_SHIM_STACK_PYTHON_INTERPRETER_H_

#include <cstdint>

#include "shim/stack/python_layout.h"

namespace gpumemshim::stack {

struct CodeRange {
  uintptr_t start;
  uintptr_t end;
  bool Contains(uintptr_t pc) const { return pc - start < end - start; }
};

// Frames from the innermost outwards.
struct PythonFrames {
  const void* innermost = nullptr;
  const void* outside = nullptr;  // the first one that does not count, or nullptr
};

// Hashes of at most `room` frames: where each stands and the object that it names (module_objects.h), and what tells
// its code object from others at the same address.
struct HashFrames {
  uint64_t (*positions)(const PythonFrames& frames, uint32_t room);
  uint64_t (*contents)(const PythonFrames& frames, uint32_t room);
};

struct Interpreter {
  void* (*this_thread_state)();  // PyGILState_GetThisThreadState: right also where the GIL is released
  int (*is_finalizing)();        // may be nullptr
  PythonLayout layout;
  HashFrames hash_frames;  // for this layout
  const void* code_type;
  const void* string_type;
  const void* bytes_type;
  // Return addresses in here are the interpreter running Python frames. The compiler may have split off a cold part.
  CodeRange evaluation;
  CodeRange evaluation_cold;
};

// The interpreter, found now or before; nullptr while there is none or none that we can read. Cheap once found. While
// there is none it looks again now and then, since an embedding program loads Python late.
const Interpreter* FindInterpreter();

// One was found, and it was not refused. Its frames may not be verified yet, since none of its threads came by; its C
// functions may be called.
bool KnowsInterpreter();

// Why Python frames are not read: "" while they are, or while there is no Python at all.
const char* Refusal();

// A function or object of the interpreter that was found; nullptr where it has none of that name.
void* FindInInterpreter(const char* name);

// The interpreter's version as it prints it ("3.11.7 (main, ...)"), or "" without one.
const char* InterpreterVersion();

// Looks at the version text alone: the minor version of a CPython 3 build, 0 for anything else, free-threaded builds
// and versions before their first candidate.
int ReadableMinor(const char* version);

// In a forked child: a search that another thread of the parent was in will never end here. What was found stays true.
void EndSearchInChild();

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_PYTHON_INTERPRETER_H_
