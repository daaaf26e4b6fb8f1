// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The answer of a trace in a few sentences: what went wrong if anything did, how high the peak was, what it was made
// of and by which line, and the one thing to do. Text and JSON say the same. Nothing is escaped. Pure functions.
//
//   const Verdict verdict = MakeVerdict(input);
//   verdict.peak;    // "8.11 GiB allocated, 9.52 GiB reserved on GPU 0 at 1.26 s in backward, step 2"
//   verdict.mostly;  // "activations (63 %); top line train.py:91 loss, 3.83 GiB (47 %)"
//   verdict.action;  // "nothing: this program left 130 GiB of GPU 0 free (93 %)"

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_VERDICT_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_VERDICT_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "ledger/attribution/attribution.h"
#include "ledger/load/input.h"

namespace gpumem {

// From harmless to worst; the worst that holds is the verdict. kUnknown: nothing wrong is seen, but the trace does not
// have all events, or says what cannot be.
enum class VerdictKind : uint8_t { kNothing, kFits, kUnknown, kFragmented, kNearlyFull, kGrowing, kOutOfMemory };

// "nothing", "fits", "unknown", "fragmented", "nearly_full", "growing", "out_of_memory".
absl::string_view VerdictName(VerdictKind kind);

struct Verdict {
  VerdictKind kind = VerdictKind::kNothing;
  std::string problem;  // what went wrong, or that only CUPTI saw the program's memory; "" where nothing did
  std::string peak;     // the rest is "" where no GPU memory was allocated
  std::string mostly;
  std::string action;
};

// What PyTorch's blocks at a peak of so many bytes were for, as far as they were recorded; with all other memory where
// the peak is not PyTorch's allocated bytes.
struct PeakCategories {
  CategoryBytes bytes{}, counts{};                                          // counts: blocks
  std::array<std::array<uint64_t, kEvidences>, kCategories> by_evidence{};  // bytes
};
PeakCategories CategoriesOfPeak(const Moment& moment, Measure measure, uint64_t bytes);

// Reserved at its peak beyond allocated at its own: no setting of PyTorch's allocator can save more.
uint64_t WasteOf(const DeviceAnalysis& device);

inline constexpr uint64_t kNearlyFullPercent = 85;  // of the device

// Whether the program had little of the device left at its highest; false where its size is not known.
bool IsNearlyFull(const DeviceAnalysis& device);

// Whether a replay with other settings may find something worth its seconds, and would be of the whole run.
bool IsWorthReplay(const ReportInput& input, const DeviceAnalysis& device);

// Whether the recorded settings, replayed, give the peak that `device` has: not of a part of a run whose peak is lower.
bool IsReplayOf(const WhatIfAnswer& what_if, const DeviceAnalysis& device);

// By how much the peak of reserved would have been lower with other settings, by a replay that gives what was recorded:
// what cannot be known otherwise is never said. 0: not at all, or not known.
uint64_t ReplayedSaving(const WhatIfAnswer* what_if, const DeviceAnalysis& device);

// Whether what grows on a device is enough for a verdict: less than 1 MiB, or than 2 % of the peak, is noise of caches
// that settle.
bool GrowsEnough(const ReportInput& input, const DeviceAnalysis& device);
// The same for pinned and managed memory.
bool HostGrowsEnough(const ReportInput& input);

// Of the device with the largest peak; of the one that ran out of memory where one did.
Verdict MakeVerdict(const ReportInput& input);

// The device of the verdict; nullptr where there is none.
const DeviceAnalysis* DeviceOfVerdict(const ReportInput& input);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_VERDICT_H_
