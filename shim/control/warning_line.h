// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The line on stderr that says that a device has reached a limit of GPUMEMSHIM_WARN_AT. Stateless.
//
//   gpumemshim: GPU 0 is 91 % full (72.8 GiB of 80 GiB, 61 GiB by this process): reached 90 %

#ifndef GPUMEM_SHIM_CONTROL_WARNING_LINE_H_
#define GPUMEM_SHIM_CONTROL_WARNING_LINE_H_

#include <cstddef>

#include "shim/witness/sampler/sample.h"

namespace gpumemshim::control {

// Writes the line, newline included, and returns its size. What does not fit is cut.
size_t WarningLine(const sampler::Crossing& crossing, char* out, size_t capacity);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_WARNING_LINE_H_
