// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Where a program on simulated CUDA read device memory: what came was not computed, so what it did next may be
// otherwise on a GPU. By operator and line.
//
//   HostReadCounts counts;
//   LoadTrace(options, {path}, console, [&](const OpenTrace& trace) { counts = CountHostReads(trace); });
//   std::vector<HostRead> reads = DescribeHostReads(counts, input);
//
// Pure functions, but for the reader's place.

#ifndef GPUMEM_PLANNER_PREDICT_HOST_READS_H_
#define GPUMEM_PLANNER_PREDICT_HOST_READS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ledger/load/input.h"
#include "replay/analyze.h"
#include "symbols/symbolizer.h"

namespace gpumem::plan {

struct HostReadCount {
  uint64_t count = 0, bytes = 0, largest = 0;
};
using HostReadCounts = std::map<uint64_t, HostReadCount>;  // by stack

// `last_alloc_ns`: when the last allocation succeeded; may be null.
HostReadCounts CountHostReads(const OpenTrace& trace, uint64_t* last_alloc_ns = nullptr);

enum class HostReadKind : uint8_t {
  kShape,   // how many were found decides the size of what comes next: nonzero, masks, unique
  kBranch,  // the truth of a tensor: if, while, assert
  kValue,   // one number: item(), float(), a loss that is printed
  kCopy,    // several: .cpu(), .tolist(), .numpy()
};

struct HostRead {
  HostReadKind kind = HostReadKind::kCopy;
  std::string operation;  // "aten::nonzero"; "" where nothing tells
  std::string site;       // the program's line
  uint64_t count = 0, bytes = 0;
};

// The kind that the functions of a stack, innermost first, tell; `largest` is of its reads, in bytes.
HostReadKind KindOfRead(const std::vector<ResolvedFrame>& frames, uint64_t largest, std::string* operation);

// Those that may decide what comes next first; then by count.
std::vector<HostRead> DescribeHostReads(const HostReadCounts& counts, const ReportInput& input);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_PREDICT_HOST_READS_H_
