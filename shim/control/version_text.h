// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Versions as their makers print them, from what they hand out.
//
// Thread-safety: pure. Failure: ParseTorchVersion returns false.

#ifndef GPUMEM_SHIM_CONTROL_VERSION_TEXT_H_
#define GPUMEM_SHIM_CONTROL_VERSION_TEXT_H_

#include <cstddef>

namespace gpumemshim::control {

// 13000 -> "13.0"
void FormatCudaVersion(int version, char* out, size_t capacity);

// The value of `__version__ = '2.11.0+cu130'` in the text of torch/version.py; false where there is none.
bool ParseTorchVersion(const char* version_py, char* out, size_t capacity);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_VERSION_TEXT_H_
