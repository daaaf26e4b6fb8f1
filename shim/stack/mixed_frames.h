// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// One stack out of two: the native frames, with each run of the interpreter's loop replaced by the Python frames that
// it runs. Up to 3.10 that is one frame; from 3.11 on one C frame runs Python calling Python, up to its entry frame.
//
//   native                    Python                     mixed
//   at::native::empty         forward (entry)            at::native::empty
//   _PyEval_EvalFrame...      main                       forward
//   _PyObject_Call            <module> (entry)           _PyObject_Call
//   _PyEval_EvalFrame...                                 main
//   __libc_start_main                                    <module>
//                                                        __libc_start_main
//
// Thread-safety: the calling thread's frames only. Failure: Python frames for which no loop was found stand outermost;
// native frames that end in a loop without a Python frame are left out with all behind them. They are those of whoever
// runs below: a greenlet has Python frames of its own on a C stack that its parent may have changed since.

#ifndef GPUMEM_SHIM_STACK_MIXED_FRAMES_H_
#define GPUMEM_SHIM_STACK_MIXED_FRAMES_H_

#include <cstdint>

#include "shim/stack/python_interpreter.h"
#include "shim/stack/python_walk.h"

namespace gpumemshim::stack {

// Frames of Python code, those included that the interpreter is still setting up.
class PythonCursor {
 public:
  PythonCursor(const PythonLayout& layout, const PythonFrames& frames);

  bool AtEnd() const { return frame_ == nullptr || frame_ == outside_; }
  PythonPosition Position() const;
  bool HasBegun() const;

  // Whether the C frame that runs this one began with it.
  bool IsEntry() const;
  void Next();

 private:
  void SkipForeign();

  const PythonLayout& layout_;
  const void* frame_;
  const void* const outside_;
};

inline bool IsEvaluation(const Interpreter& python, const void* pc) {
  const auto value = reinterpret_cast<uintptr_t>(pc);
  return python.evaluation.Contains(value) || python.evaluation_cold.Contains(value);
}

// Whether one of the frames from pcs[from] outwards is a run of the loop.
inline bool RunsLoop(const Interpreter& python, void* const* pcs, uint32_t from, uint32_t count) {
  for (uint32_t i = from; i < count; ++i) {
    if (IsEvaluation(python, pcs[i])) return true;
  }
  return false;
}

// Calls native(pc) and python(position), innermost first, until one returns false. `python` may be nullptr. False where
// not all frames were shown.
template <typename Native, typename Python>
bool ForEachMixedFrame(const Interpreter* python, const PythonFrames& frames, void* const* pcs, uint32_t count,
                       Native on_native, Python on_python) {
  if (python == nullptr) {
    for (uint32_t i = 0; i < count; ++i) {
      if (!on_native(pcs[i])) return false;
    }
    return true;
  }
  PythonCursor cursor(python->layout, frames);
  for (uint32_t i = 0; i < count; ++i) {
    if (!IsEvaluation(*python, pcs[i])) {
      if (!on_native(pcs[i])) return false;
      continue;
    }
    for (bool last = false; !last && !cursor.AtEnd(); cursor.Next()) {
      last = cursor.IsEntry();
      if (cursor.HasBegun() && !on_python(cursor.Position())) return false;
    }
    if (cursor.AtEnd() && RunsLoop(*python, pcs, i + 1, count)) return false;
  }
  for (; !cursor.AtEnd(); cursor.Next()) {
    if (cursor.HasBegun() && !on_python(cursor.Position())) return false;
  }
  return true;
}

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_MIXED_FRAMES_H_
