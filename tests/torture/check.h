// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Holds a trace against the truth. Nothing is acknowledged and missing but what the trace's losses count, by kind;
// nothing is there twice, invented, or out of its thread's order; and the order of the whole is a history: time does
// not run backwards, nothing is freed that is not live, nothing is given out that is.
//
// Not thread-safe. Refers to the truth. Memory: what is live.
//
//   const Verdict verdict = CheckTrace("run.gmtrace", *truth, file);
//   if (!verdict.wrong.empty()) ...

#ifndef GPUMEM_TESTS_TORTURE_CHECK_H_
#define GPUMEM_TESTS_TORTURE_CHECK_H_

#include <cstdint>
#include <string>

#include "truth.h"

namespace torture {

struct Verdict {
  std::string wrong;  // the first thing that does not hold, or ""
  uint64_t acknowledged = 0, found = 0;
  uint64_t from_ring = 0;  // of those found
  uint64_t dropped_allocs = 0, dropped_frees = 0;
  uint64_t without_stack = 0;
  uint64_t last_whole_packet = 0;
  bool torn = false;  // the file ends in half a packet
};

// `file` is the mapped truth file.
Verdict CheckTrace(const std::string& trace, const Truth& truth, const char* file);

}  // namespace torture

#endif  // GPUMEM_TESTS_TORTURE_CHECK_H_
