// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Whose code a frame is. A stack of 60 frames is useless to a reader who wants to know which line of the own script to
// change; this tells the reader's lines from PyTorch's, the interpreter's and CUDA's. By paths and module names alone;
// pure functions.

#ifndef GPUMEM_ANALYZER_LEDGER_STACKS_FRAME_CLASS_H_
#define GPUMEM_ANALYZER_LEDGER_STACKS_FRAME_CLASS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "symbols/symbolizer.h"

namespace gpumem {

enum class FrameClass : uint8_t {
  kUser,     // the script, its modules, and native code that is neither a system's nor a package's
  kLibrary,  // an installed Python package that is not PyTorch
  kTorch,    // PyTorch's Python code, and code that it generates
  kStandardLibrary,
  kImportMachinery,
  kNative,  // native code of PyTorch, CUDA, the interpreter, the system
};

FrameClass ClassifyFrame(const ResolvedFrame& frame);

// The frame's file as short as it stays clear: relative to `working_directory`, from the package's name on for
// installed packages, else the last two parts. Not escaped.
std::string ShortFile(absl::string_view file, absl::string_view working_directory);

// "train.py:42 Block.forward"; without a file "function (libfoo.so)". Not escaped.
std::string FrameText(const ResolvedFrame& frame, absl::string_view working_directory);

// PyTorch functions that only pass calls on (Module._call_impl and the like).
bool IsTrampoline(const ResolvedFrame& frame);

// Whether a frame says something that its neighbours do not: Python, the user's native code, operators
// (at::_ops::X::call) and their kernels (at::native), PyTorch's allocators, autograd nodes, functions of other
// libraries. Not: dispatch and boxing, the interpreter's C code, the C library, frames without a name.
bool IsTelling(const ResolvedFrame& frame);

// What stands in the place of frames: "<callers not recorded>", "<lost frame>".
bool IsMark(const ResolvedFrame& frame);

// A function inside PyTorch's caching allocators; a run of them is known by its outermost.
bool IsInsideAllocator(const ResolvedFrame& frame);

// "cuBLAS workspace" for a native frame that asks for one, or that is of the library itself; "" for others. Such memory
// is the library's own, whichever line of the program came first.
absl::string_view WorkspaceOf(const ResolvedFrame& frame);

// "AddmmBackward0" for the native frame of an autograd node, "aten::linear" for one of an operator's dispatch, else "".
std::string AutogradNode(absl::string_view native_function);
std::string AtenOperator(absl::string_view native_function);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_STACKS_FRAME_CLASS_H_
