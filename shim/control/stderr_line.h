// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Writes a line to the program's stderr in such a way that the program does not feel it: a reader that has gone
// (SIGPIPE) or a limit on the size of files (SIGXFSZ) must not end a program that never wrote there itself, a pipe that
// nobody empties must not hold it up, and a program that was started without a stderr may have a file of its own under
// that number.
//
// Thread-safety: any thread; not in a hook. Failure: the line is lost. errno stays.
//
//   WriteLine("gpumemshim: 1 event\n", 16);

#ifndef GPUMEM_SHIM_CONTROL_STDERR_LINE_H_
#define GPUMEM_SHIM_CONTROL_STDERR_LINE_H_

#include <cstddef>

namespace gpumemshim::control {

void WriteLine(const char* line, size_t size);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_STDERR_LINE_H_
