// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The first screen's words about a request that failed for good. Pure functions of the input.
//
//   verdict.problem = FailureText(oom, input);   // "PyTorch asked for 8 KiB at 65.9 ms; GPU 0 had 0 B free of 3 GiB"

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_FAILURE_WORDS_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_FAILURE_WORDS_H_

#include <string>

#include "ledger/load/input.h"
#include "replay/analysis.h"

namespace gpumem {

// Who asked for how much, when, and what the device had. The line that asked is named where it is not the one that has
// most of the peak: that one stands in the next lines.
std::string FailureText(const OomEvent& oom, const ReportInput& input);

// What to do about it, with its bytes; where nothing is known, the command that explains the request.
std::string FailureActionText(const OomEvent& oom, const ReportInput& input);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_FAILURE_WORDS_H_
