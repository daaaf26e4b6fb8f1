// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
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

#ifndef GPUMEM_SHIM_STACK_PYTHON_OFFSETS_H_
#define GPUMEM_SHIM_STACK_PYTHON_OFFSETS_H_

#include "shim/stack/python_layout.h"

namespace gpumemshim::stack {

inline constexpr int kFirstWithDebugOffsets = 13;

// `layout` comes in as the version's from the table and goes out as the build's; it is unchanged where the text is not
// empty. The text is constant.
const char* ReadDebugOffsets(const void* runtime, PythonLayout* layout);

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_PYTHON_OFFSETS_H_
