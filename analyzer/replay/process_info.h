// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The process of a trace, as its header has it; secrets in command line and environment are masked. A pure function.

#ifndef GPUMEM_ANALYZER_REPLAY_PROCESS_INFO_H_
#define GPUMEM_ANALYZER_REPLAY_PROCESS_INFO_H_

#include "gpumem/trace.pb.h"
#include "replay/analysis.h"

namespace gpumem {

ProcessInfo ProcessInfoOf(const trace::Header& header);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_PROCESS_INFO_H_
