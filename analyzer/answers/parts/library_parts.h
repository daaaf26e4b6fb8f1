// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Other CUDA memory by what asked for it: each communicator of NCCL with its ranks, each library's handles by the line
// and the thread that made it take memory. Pure functions.
//
//   for (const LibraryPart& part : LibraryParts(breakdown, input)) ...   // a library's parts together, largest library
//   first

#ifndef GPUMEM_ANALYZER_ANSWERS_PARTS_LIBRARY_PARTS_H_
#define GPUMEM_ANALYZER_ANSWERS_PARTS_LIBRARY_PARTS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ledger/load/input.h"
#include "replay/analysis.h"

namespace gpumem {

struct LibraryPart {
  std::string library;  // "NCCL"; "the program" for what no library asked for
  std::string label;    // "NCCL communicator 2 (rank 3 of 8), asked by train.py:27 main"
  std::string line;     // of the program that made the library ask; "" where it is not known, or there are several
  uint64_t bytes = 0;
  uint64_t pieces = 0;
  std::set<uint32_t> threads;  // that asked, by the trace's numbers; none where not known
  uint32_t communicator = 0;   // number in the process; 0 = none
  uint64_t communicators = 0;  // 1; of those that are told together, how many
  uint32_t ranks = 0;          // of the communicator; 0 = not known
  int64_t rank = -1;           // of this process in it; -1 = not known
  std::string key;             // what it is, without numbers that change: the same at two instants
};

std::vector<LibraryPart> LibraryParts(const MemoryBreakdown& breakdown, const ReportInput& input);

// "NCCL (2 communicators)", "cuBLAS (5 threads)", "the program": what all parts of one library are.
std::string LibraryTitle(const std::vector<LibraryPart>& parts, const std::string& library);

// Of LibraryOf: no part of the program itself.
bool IsLibrary(const std::string& library);

// The title of the library that has nearly all of it; "" where none has.
std::string LibraryOfMost(const MemoryBreakdown& breakdown, const ReportInput& input);

// Which library asked for memory, by the innermost native frame that is not CUDA's own: "NCCL", "cuBLAS", ...; PyTorch
// where it asked past its cache; else the program. Never empty.
std::string LibraryOf(const std::vector<ResolvedFrame>& frames);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_PARTS_LIBRARY_PARTS_H_
