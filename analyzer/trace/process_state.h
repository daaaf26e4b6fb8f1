// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Whether the process of a trace still runs. Only this machine's can be asked: elsewhere, and where the trace names no
// start time, the answer is "not known". A zombie has ended. Thread-safe.
//
//   if (StateOf(header) == ProcessState::kRunning) ...

#ifndef GPUMEM_ANALYZER_TRACE_PROCESS_STATE_H_
#define GPUMEM_ANALYZER_TRACE_PROCESS_STATE_H_

#include <cstdint>

#include "gpumem/trace.pb.h"

namespace gpumem {

enum class ProcessState : uint8_t { kUnknown, kRunning, kEnded };

ProcessState StateOf(const trace::Header& header);

// The same for a process of this machine. `start_ticks` is field 22 of /proc/PID/stat.
ProcessState StateOfProcess(uint32_t pid, uint64_t start_ticks);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_PROCESS_STATE_H_
