// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Where the code of CPython's evaluation loop lies: the range of the exported `function` from the dynamic symbol table,
// and the cold part that the compiler may have split off, from the file's full symbol table where it was not stripped.
//
// Thread-safety: any thread; reads a file once, at set-up. Failure: an empty range.

#ifndef GPUMEM_SHIM_STACK_EVALUATION_RANGE_H_
#define GPUMEM_SHIM_STACK_EVALUATION_RANGE_H_

#include "shim/stack/python_interpreter.h"

namespace gpumemshim::stack {

void FindEvaluationRange(const void* function, CodeRange* main_part, CodeRange* cold_part);

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_EVALUATION_RANGE_H_
