// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Growth in words, the same on every page and in the verdict. Nothing is escaped. Pure functions.
//
//   LeakHeadline(findings, 0)   // "2 lines keep growing, 8.00 MiB a step in all; most: train.py:42 main"

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_LEAK_WORDS_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_LEAK_WORDS_H_

#include <string>
#include <vector>

#include "ledger/leaks/leaks.h"
#include "ledger/load/input.h"

namespace gpumem {

// nullptr: no such device.
const LeakDevice* LeaksOf(const LeakFindings& findings, int device);

// What grew on a device in all lines that keep growing, bytes; 0 where nothing was judged (null).
uint64_t GrowingBytes(const LeakFindings* findings, int device);

// What keeps growing on a device; that nothing does; or that nothing repeats often enough to tell.
std::string LeakHeadline(const LeakFindings& findings, int device);

// What all lines that keep growing on a device are, where none of it is tensors: "CUDA memory outside PyTorch", or
// the library that asked for it, "CUDA memory of NCCL"; "" where some is, or nothing grows. The first screen says it.
std::string PartThatGrows(const LeakFindings& findings, int device, const ReportInput& input);

// The row of which the first screen says who keeps it: the largest, or the first with at least half as much that has an
// owner with a name, where the largest has none. `rows` has one at least.
const LeakRow& RowToSay(const std::vector<LeakRow>& rows);

// Whether what grows is enough of the peak for an alarm.
bool GrowsEnough(const ReportInput& input, const DeviceAnalysis& device);
bool HostGrowsEnough(const ReportInput& input);

// "judged over 100 training steps, 0.52 s to 2.1 s".
std::string LoopText(const LeakLoop& loop, const ReportInput& input);

// "step" or "iteration": what a row's loop counts.
std::string IterationWord(const LeakFindings& findings, const LeakRow& row);

// "8.00 MiB"; below a byte an iteration "0.5 B".
std::string RateText(double bytes_per_iteration);

// The line that allocates; of a graph, most of it.
std::string LeakSite(const LeakRow& row);

// What is to be known of a row: who was seen to keep it, and what to do.
std::string LeakRemark(const LeakRow& row, const LeakFindings& findings);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_LEAK_WORDS_H_
