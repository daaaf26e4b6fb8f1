// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Loaded by walk_test.py through ctypes, which lets go of the GIL around the call: the walk as a hook does it. Writes
// the hash of the stack, then one line a frame, innermost first: qualified name, file, first line, instruction offset,
// line table in hex.

#include <cstdio>
#include <cstring>

#include "shim/stack/python_code.h"
#include "shim/stack/python_walk.h"

extern "C" __attribute__((visibility("default"))) int WalkInto(char* out, int capacity) {
  using namespace gpumemshim::stack;
  const Interpreter* python = FindInterpreter();
  if (python == nullptr) return std::snprintf(out, static_cast<size_t>(capacity), "REFUSED %s", Refusal());
  const PythonLayout& layout = python->layout;
  const void* innermost = InnermostPythonFrame(*python);
  int size = std::snprintf(out, static_cast<size_t>(capacity), "%016llx\n",
                           static_cast<unsigned long long>(python->hash_frames(innermost, kHashSeed, 512)));
  ForEachPythonFrame(layout, innermost, [&](const PythonPosition& position) {
    char buffers[2][512];
    Text file{};
    Text name{};
    ReadString(*python, Load<const void*>(position.code, layout.code_filename), buffers[0], 512, &file);
    ReadString(*python, Load<const void*>(position.code, layout.code_qualname), buffers[1], 512, &name);
    size += std::snprintf(out + size, static_cast<size_t>(capacity - size), "%.*s\t%.*s\t%u\t%u\n",
                          static_cast<int>(name.size), name.data, static_cast<int>(file.size), file.data,
                          Load<uint32_t>(position.code, layout.code_first_line), position.instruction);
    return size + 1200 < capacity;
  });
  return size;
}
