// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Loaded by walk_check.py through ctypes, which lets go of the GIL around the call: the walk as a hook does it, and the
// lines as the analyzer decodes them. Writes the hash of the stack, then for each frame, innermost first: name, file,
// first line, instruction, line, key, line table's size. Fields end with \x1f, rows with \x1e.

#include <cstdio>

#include "shim/stack/python_code.h"
#include "shim/stack/python_walk.h"
#include "shim/stack/thread_state.h"
#include "symbols/python_lines.h"

namespace {

using namespace gpumemshim::stack;

constexpr int kMaxOfARow = 2048;

unsigned Line(const Interpreter& python, const PythonPosition& position, gpumem::PythonCodeInfo* info) {
  const PythonLayout& layout = python.layout;
  const void* table = Load<const void*>(position.code, layout.code_line_table);
  info->line_table.assign(static_cast<const char*>(table) + kBytesData, Load<uint64_t>(table, kObjectSize));
  info->first_line = Load<uint32_t>(position.code, layout.code_first_line);
  info->python_minor = layout.minor;
  return gpumem::PythonLine(*info, position.instruction);
}

int Append(const Interpreter& python, const PythonPosition& position, char* out, size_t capacity) {
  static thread_local gpumem::PythonCodeInfo info;
  char buffers[2][kMaxFilename];
  Text file{"<unreadable>", 12};
  Text name{"<unreadable>", 12};
  ReadString(python, Load<const void*>(position.code, python.layout.code_filename), buffers[0], kMaxFilename, &file);
  ReadString(python, Load<const void*>(position.code, python.layout.code_qualname), buffers[1], kMaxName, &name);
  const unsigned line = Line(python, position, &info);
  return std::snprintf(out, capacity, "%.*s\x1f%.*s\x1f%u\x1f%u\x1f%u\x1f%016llx\x1f%zu\x1e",
                       static_cast<int>(name.size), name.data, static_cast<int>(file.size), file.data, info.first_line,
                       position.instruction, line, static_cast<unsigned long long>(position.key),
                       info.line_table.size());
}

}  // namespace

// Bytes written. "REFUSED why" where the interpreter is not read.
extern "C" __attribute__((visibility("default"))) int WalkInto(char* out, int capacity) {
  const auto room = static_cast<size_t>(capacity);
  const Interpreter* python = FindInterpreter();
  if (python == nullptr) return std::snprintf(out, room, "REFUSED %s", Refusal());
  const void* innermost = InnermostPythonFrame(*python);
  int size = std::snprintf(
      out, room, "%016llx\x1e",
      static_cast<unsigned long long>(CurrentThread()->positions.Hash(*python, {innermost, nullptr}, 1u << 20)));
  ForEachPythonFrame(python->layout, innermost, [&](const PythonPosition& position) {
    size += Append(*python, position, out + size, room - static_cast<size_t>(size));
    return size + kMaxOfARow < capacity;
  });
  return size;
}

// Walks without end: for threads that the process leaves behind.
extern "C" __attribute__((visibility("default"))) void WalkOn() {
  char out[1 << 16];
  for (;;) WalkInto(out, sizeof out);
}

// A C function that calls Python back.
extern "C" __attribute__((visibility("default"))) int CallBack(int (*function)(int), int argument) {
  return function(argument);
}
