// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the kernel says of a process in /proc/PID/status. A process that is not there has no fields and no parent.

#ifndef GPUMEM_ANALYZER_BASE_PROCESS_STATUS_H_
#define GPUMEM_ANALYZER_BASE_PROCESS_STATUS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace gpumem {

// The value of "NAME:\t...", without the blanks in front; "" where there is none.
std::string ProcessStatus(int pid, absl::string_view name);

// It is not there, or only waits for its parent to ask how it ended.
bool HasEnded(int pid);

int ParentOf(int pid);  // 0: not known

// `ancestor` started `pid`, itself or through others; or they are the same.
bool IsAtOrBelow(int pid, int ancestor);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_PROCESS_STATUS_H_
