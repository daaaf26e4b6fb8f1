// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What lives too long in a training, and what each would save: counted (peak_without.h), never estimated. Pure
// functions.
//
//   for (const Remedy& remedy : RemediesOfPeak(input, device)) ...   // largest saving first
//   SentenceOf(remedy);   // "optimizer.zero_grad() before the forward pass: the peak would be 705 MiB, not 801 MiB"

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_REMEDIES_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_REMEDIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "answers/report/peak_without.h"
#include "ledger/load/input.h"

namespace gpumem {

// Of the peak: what saves less is not listed.
inline constexpr uint64_t kLeastRemedyPercent = 1;

struct Remedy {
  PeakPart part = PeakPart::kForeach;
  std::string site;           // the line that allocates most of it: "train.py:12 main"
  uint64_t held = 0;          // bytes at the moment, the peak or a failure, that are not needed any more
  uint64_t blocks = 0;        // in so many
  uint64_t peak = 0;          // recorded
  uint64_t peak_without = 0;  // had they been let go of in time; where the moment is a failure, as `peak`

  uint64_t saving() const { return peak - peak_without; }
};

absl::string_view PeakPartName(PeakPart part);  // "gradients_in_forward", as JSON has it
absl::string_view CauseOf(PeakPart part);   // "gradients are kept from the optimizer's step to the next backward pass"
absl::string_view ActionOf(PeakPart part);  // "optimizer.zero_grad() before the forward pass"
std::string SentenceOf(const Remedy& remedy);  // with both peaks
std::string EvidenceOf(const Remedy& remedy);  // the cause, its bytes and its line

// Of what lives too long; those that would lower the peak by so much of it or more. Empty where that was not counted.
std::vector<Remedy> RemediesOfPeak(const ReportInput& input, const DeviceAnalysis& device, uint64_t least_percent);

// What is held too long when a request fails: 1 % of what is allocated, or more.
std::vector<Remedy> RemediesOfFailure(const ReportInput& input, const OomEvent& oom);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_REMEDIES_H_
