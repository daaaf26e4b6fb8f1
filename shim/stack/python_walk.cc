// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/python_walk.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace gpumemshim::stack {

const void* InnermostPythonFrame(const Interpreter& python) {
  // A finalizing interpreter frees the thread states of other threads, ours may be gone already.
  if (python.is_finalizing != nullptr && python.is_finalizing() != 0 && syscall(SYS_gettid) != getpid()) return nullptr;
  const void* thread = python.this_thread_state();
  if (thread == nullptr) return nullptr;
  const void* frame = Load<const void*>(thread, python.layout.thread_frame);
  if (python.layout.has_cframe && frame != nullptr) frame = Load<const void*>(frame, python.layout.cframe_frame);
  return frame;
}

}  // namespace gpumemshim::stack
