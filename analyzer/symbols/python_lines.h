// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PythonLine: the source line of an instruction of a code object, from the line table that the interpreter carried.
// Pure; accepts any bytes.
//
//   CPython 3.11 and newer: location table, entries of a byte (kind, length in code units) and what the kind says
//   CPython 3.10:           pairs (bytes of code, signed line delta; -128 = no line)
//   CPython 3.6 - 3.9:      lnotab, pairs (bytes of code before, signed line delta)

#ifndef GPUMEM_ANALYZER_SYMBOLS_PYTHON_LINES_H_
#define GPUMEM_ANALYZER_SYMBOLS_PYTHON_LINES_H_

#include <cstdint>

#include "trace/stack_table.h"

namespace gpumem {

// `instruction` is a byte offset into the bytecode. The function's first line where the table gives none; 0 where that
// is not known either.
uint32_t PythonLine(const PythonCodeInfo& code, uint32_t instruction);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_SYMBOLS_PYTHON_LINES_H_
