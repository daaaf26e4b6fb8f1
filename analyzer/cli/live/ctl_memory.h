// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// `gpumemshim ctl PID`: what the memory of a running program is used for at this moment, from its trace so far.
//
//   GPUMEM_RETURN_IF_ERROR(PrintMemoryNow(4242, false, console));

#ifndef GPUMEM_ANALYZER_CLI_LIVE_CTL_MEMORY_H_
#define GPUMEM_ANALYZER_CLI_LIVE_CTL_MEMORY_H_

#include "absl/status/status.h"
#include "base/console.h"

namespace gpumem {

// The trace is copied as far as it is (a folder in the directory for temporary files, removed afterwards), and read.
// A process that has recorded nothing says so. Failure: as AskProcess and TakeSnapshot, or the trace cannot be read.
absl::Status PrintMemoryNow(int pid, bool json, Console* console);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_LIVE_CTL_MEMORY_H_
