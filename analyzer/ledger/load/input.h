// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What every renderer gets: the numbers, the stacks, and what was asked for. Plain pointers; the owner outlives the
// rendering.

#ifndef GPUMEM_ANALYZER_LEDGER_LOAD_INPUT_H_
#define GPUMEM_ANALYZER_LEDGER_LOAD_INPUT_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "ledger/stacks/stack_source.h"
#include "ledger/stacks/stack_view.h"
#include "replay/analysis.h"

namespace gpumem {

struct Attribution;
struct LeakFindings;
struct WhatIfAnswer;
class PeakWithout;

struct ReportInput {
  const Analysis* analysis = nullptr;
  StackSource* stacks = nullptr;
  AnalyzeOptions asked;
  std::string trace_argument;                // how the next command names the trace; "" = the default one
  const Attribution* attribution = nullptr;  // where it was asked for
  const LeakFindings* leaks = nullptr;       // the same
  const WhatIfAnswer* what_if = nullptr;     // other settings of PyTorch's allocator, where they were replayed
  const PeakWithout* without = nullptr;      // the peak without parts of it, where it was counted

  // Times as they are printed: from the first event on.
  uint64_t Since(uint64_t time_ns) const { return time_ns > analysis->origin_ns ? time_ns - analysis->origin_ns : 0; }
  uint64_t window_start_ns() const { return analysis->origin_ns + std::min(asked.from_ns, Since(analysis->end_ns)); }
  uint64_t window_end_ns() const { return analysis->origin_ns + std::min(asked.to_ns, Since(analysis->end_ns)); }
  // The first event on the wall clock, nanoseconds since 1970; 0 = not known.
  uint64_t StartRealtime() const {
    const ProcessInfo& process = analysis->process;
    if (process.anchor_realtime_ns == 0 || analysis->origin_ns == 0) return 0;
    return process.anchor_realtime_ns + (analysis->origin_ns - process.anchor_monotonic_ns);
  }
};

// How much a section says: its share of the one-screen report, or all of it.
enum class Detail : uint8_t { kBrief, kFull };

struct TextOptions {
  Detail detail = Detail::kBrief;
  size_t top = 5;                                // most stacks a list
  bool full_stacks = false;                      // the stack as a list of frames below its site
  NativeFrames native = NativeFrames::kTelling;  // in such a list
  bool below = true;                             // brief lists: whether a site has its line of context below it
  bool by_stack = false;                         // one entry a stack instead of one a line of the user's code
};

// Whether PyTorch's allocator was at work on this device.
inline bool UsesTorch(const DeviceAnalysis& device) {
  return device.peak_allocated.bytes > 0 || device.peak_reserved.bytes > 0;
}

// The device to speak of where none was named: the one with the largest peak of all. nullptr where there is none.
const DeviceAnalysis* LargestDevice(const Analysis& analysis);

// The measure to speak of where none was named: allocated, or total where PyTorch did nothing.
inline Measure DefaultMeasure(const DeviceAnalysis& device) {
  return UsesTorch(device) ? Measure::kAllocated : Measure::kTotal;
}

const SeriesPeak& PeakOf(const DeviceAnalysis& device, Measure measure);
const LiveSet& LiveAtPeak(const DeviceAnalysis& device,
                          Measure measure);  // kOther has no set of its own: that of total

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LOAD_INPUT_H_
