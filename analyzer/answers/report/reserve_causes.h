// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Why PyTorch reserved more than it allocated, and what to do about it: what free memory lay in caches that nothing
// else could use (of streams, of private pools), and what a replay says that each remedy would have saved. A remedy
// without a replayed saving is none.
//
//   if (const std::optional<ReserveRemedy> best = BestRemedy(device, input))
//     best->text;    // "make one stream and use it again: train.py:15 sync takes a new one each time (28 times), ..."
//
// Pure functions.

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_RESERVE_CAUSES_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_RESERVE_CAUSES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ledger/load/input.h"
#include "replay/analysis.h"

namespace gpumem {

// "64 MiB is free on 27 streams that were each used for a while": where free memory lay at the peak of reserved, as far
// as another stream or pool could not use it, or larger requests; "" where hardly any does.
std::string StrandedText(const DeviceAnalysis& device, const ReportInput& input);

// "train.py:15 send_weights".
std::string SiteOfStack(uint64_t stack_id, const ReportInput& input);

struct ReserveRemedy {
  std::string text;         // with its saving: "... would reserve 436 MiB instead of 2.05 GiB (replayed)"
  std::string advice;       // without
  bool of_program = false;  // else of its settings
  uint64_t saving = 0;      // of reserved, at its peak
};

// Those that save at least `least_percent` of reserved, the most first.
std::vector<ReserveRemedy> Remedies(const DeviceAnalysis& device, const ReportInput& input, uint64_t least_percent);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_RESERVE_CAUSES_H_
