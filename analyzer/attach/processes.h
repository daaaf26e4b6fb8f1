// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Which processes are meant. Reads /proc; what ends meanwhile is not in the answer. Ascending ids.

#ifndef GPUMEM_ANALYZER_ATTACH_PROCESSES_H_
#define GPUMEM_ANALYZER_ATTACH_PROCESSES_H_

#include <string>
#include <vector>

namespace gpumem {

// Of this user (of all, for root), with `text` in their command line; not this process and what started it.
std::vector<int> ProcessesNamed(const std::string& text);

// What `pid` started, itself or through others, as far as it has loaded CUDA's driver; `pid` itself where nothing else
// has.
std::vector<int> CudaProcessesBelow(int pid);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ATTACH_PROCESSES_H_
