// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a trace is of, whether it is whole, and what it lost, as sentences: the same in text and on pages. Nothing is
// escaped. Pure functions.

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_STATE_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_STATE_H_

#include <string>
#include <vector>

#include "base/console.h"
#include "ledger/load/input.h"

namespace gpumem {

struct Remark {
  std::string lead;  // "DAMAGED", "state", "LOST"
  std::string text;
  Tone tone = Tone::kPlain;
};

// "process 4242 on host, rank 0 of 8, 2026-03-14 15:09:26 UTC".
std::string ProcessText(const ReportInput& input);

// Trace, command, GPUs, versions, what was recorded, the window: what every answer rests on. The command where `full`.
std::vector<Remark> HeadFacts(const ReportInput& input, bool full);

// What is wrong with a damaged file, where, what is missing from it, and from when on numbers are unsure.
std::string DamageText(const ReportInput& input);

// What is not whole; empty where all is.
std::vector<Remark> StateRemarks(const ReportInput& input);

// "12 allocations dropped because the ring was full"; empty where nothing is missing.
std::vector<std::string> LossLines(const ReportInput& input);

// Whether a device of the trace is one of the simulated CUDA.
bool IsSimulated(const Analysis& analysis);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_STATE_H_
