// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a trace says of CUPTI, in words: whether it watched, was left to another tool, or was not to be had, and what it
// alone saw. Pure functions.

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_CUPTI_WORDS_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_CUPTI_WORDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "answers/report/state.h"
#include "gpumem/trace.pb.h"
#include "replay/analysis.h"

namespace gpumem {

// For machines: "recording", "ended", "no_library", "other_subscriber", "failed", "not_asked".
absl::string_view CuptiStateName(trace::CuptiState state);

// How far CUPTI recorded, without a full stop: "CUPTI recorded to the end (CUPTI 130000, /usr/...)".
std::string CuptiSentence(const CuptiInfo& cupti);

// The most device memory at once of calls that only CUPTI saw.
struct UnseenPeak {
  uint64_t bytes = 0;
  uint64_t allocations = 0;  // all of them
  int device = 0;            // of the peak
};
UnseenPeak UnseenPeakOf(const CuptiInfo& cupti);

// "CUPTI alone saw 4 allocations, at most 8.00 MiB at once on GPU 0: their calls went past the recorder"; "" where
// there are none.
std::string OnlyCuptiText(const CuptiInfo& cupti);

// A line on CUPTI's state and one on what it alone saw; empty where it was not asked.
std::vector<Remark> CuptiRemarks(const ReportInput& input);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_CUPTI_WORDS_H_
