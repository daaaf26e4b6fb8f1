// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What went wrong in the part of the recorder that runs in the program's Python, for the trace's versions: the first
// failure, as text, and how many there were.
//
// Thread-safety: AddFailure by one thread at a time (the GIL); the others from any. Failure: none.

#ifndef GPUMEM_SHIM_PYTHON_FAILURES_H_
#define GPUMEM_SHIM_PYTHON_FAILURES_H_

#include <cstddef>
#include <cstdint>

namespace gpumemshim::python {

// `is_last`: the helper is switched off.
void AddFailure(const char* text, size_t size, bool is_last);

uint32_t CountFailures();

// "ValueError in named_modules: no (3 times; switched off)". False where nothing failed.
bool DescribeFailures(char* out, size_t capacity);

}  // namespace gpumemshim::python

#endif  // GPUMEM_SHIM_PYTHON_FAILURES_H_
