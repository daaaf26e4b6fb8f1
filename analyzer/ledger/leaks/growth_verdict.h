// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// JudgeGrowth: whether a series of bytes, one value an iteration, keeps growing, stopped growing, or rose once. Looks
// at the lower envelope, so what comes and goes does not count. Pure; thread-safe.
//
//   bytes  |            ____      growing: the lows rise to the end, by more than chance would have it
//          |       ____/          stopped: they rose, and settled
//          |  ____/               once:    one or two rises
//          +-----------------
//
//   const GrowthVerdict verdict = JudgeGrowth(values);
//   if (verdict.status == LeakStatus::kGrowing) verdict.bytes_per_iteration;

#ifndef GPUMEM_ANALYZER_LEDGER_LEAKS_GROWTH_VERDICT_H_
#define GPUMEM_ANALYZER_LEDGER_LEAKS_GROWTH_VERDICT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpumem {

enum class LeakStatus : uint8_t {
  kFlat,      // no growth
  kExpected,  // it grew, and is meant to: a model, optimizer state, workspaces that settled, graphs
  kOnce,
  kFreed,  // it grew, and the program let go of it and went on
  kStopped,
  kGrowing,
};

// "flat", "expected", "once", "freed", "stopped", "growing".
absl::string_view LeakStatusName(LeakStatus status);

struct GrowthVerdict {
  LeakStatus status = LeakStatus::kFlat;
  int64_t grown = 0;  // bytes: the last low less the first
  // In the later half of the iterations from before the first rise to the last one; where most of them do not rise,
  // `grown` over all of them.
  double bytes_per_iteration = 0;
  size_t first_rise = 0;   // index of the value that first rose
  size_t rises = 0;        // values at which the lows rose
  size_t longest_gap = 0;  // values from one rise to the next, at most
  // One-sided Mann-Kendall test of the lows (Mann 1945, Kendall 1975), with its correction for ties: the probability
  // that lows in random order would rise less than these. 0 where there are too few.
  double confidence = 0;
};

// Fewer values than this say nothing: kFlat.
inline constexpr size_t kLeastValues = 5;

GrowthVerdict JudgeGrowth(const std::vector<int64_t>& values);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LEAKS_GROWTH_VERDICT_H_
