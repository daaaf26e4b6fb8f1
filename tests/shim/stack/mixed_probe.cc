// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Loaded by mixed_frames_test.py through ctypes: the mixed stack, a line a frame, innermost first. "P name" for a
// Python frame, "N" for a native one, "E" for a run of the interpreter's loop that got no Python frame, "|" behind the
// last native frame, "..." where those behind were left out.

#include <cstdio>

#include "shim/base/loaded_modules.h"
#include "shim/stack/mixed_frames.h"
#include "shim/stack/native_unwind.h"
#include "shim/stack/python_code.h"

using namespace gpumemshim;
using namespace gpumemshim::stack;

extern "C" __attribute__((visibility("default"))) int MixInto(char* out, int capacity) {
  modules::Prepare();
  if (LoadUnwinder(Unwinder::kLibunwind) == Unwinder::kNone) return std::snprintf(out, 64, "NO UNWINDER");
  const Interpreter* python = FindInterpreter();
  if (python == nullptr) return std::snprintf(out, static_cast<size_t>(capacity), "REFUSED %s", Refusal());
  void* pcs[kMaxUnwind];
  const uint32_t count = UnwindNative(pcs, kMaxUnwind).count;
  int size = 0;
  uint32_t natives = 0;
  uint32_t evaluations = 0;
  for (uint32_t i = 0; i < count; ++i) evaluations += IsEvaluation(*python, pcs[i]) ? 1 : 0;
  const uint32_t others = count - evaluations;
  const auto put = [&](const char* format, auto... values) {
    size += std::snprintf(out + size, static_cast<size_t>(capacity - size), format, values...);
    return size + 1200 < capacity;
  };
  const bool whole = ForEachMixedFrame(
      python, {InnermostPythonFrame(*python), nullptr}, pcs, count,
      [&](const void* pc) {
        if (IsEvaluation(*python, pc)) return put("E\n");
        return put(++natives == others ? "N\n|\n" : "N\n");
      },
      [&](const PythonPosition& position) {
        char buffer[512];
        Text name{};
        ReadString(*python, Load<const void*>(position.code, python->layout.code_name), buffer, sizeof buffer, &name);
        return put("P %.*s\n", static_cast<int>(name.size), name.data);
      });
  if (!whole) put("...\n");
  return size;
}
