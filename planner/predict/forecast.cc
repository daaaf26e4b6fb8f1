// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/forecast.h"

#include <algorithm>

namespace gpumem::plan {

namespace {

// What the device shows for this process beyond what is recorded: context and loaded code.
uint64_t BeyondRecorded(const MemoryBreakdown& breakdown) {
  if (!breakdown.any || breakdown.process == kNotStated) return 0;
  return breakdown.process - std::min(breakdown.process, breakdown.values.total);
}

}  // namespace

RunPeaks PeaksOfDevice(const DeviceAnalysis& device) {
  RunPeaks peaks;
  peaks.device = device.device;
  peaks.allocated = device.peak_allocated.bytes;
  peaks.reserved = device.peak_reserved.bytes;
  peaks.is_exact = device.bound == PeakBound::kExact;
  const MemoryBreakdown& breakdown = device.breakdown_at_peak;
  peaks.process = std::max(breakdown.any ? breakdown.Explained() : 0, device.peak_total.bytes);
  if (breakdown.any && breakdown.process != kNotStated) peaks.process = std::max(peaks.process, breakdown.process);
  const uint64_t recorded = breakdown.any ? breakdown.values.total : device.peak_total.bytes;
  // A sample may see the peak before the first kernel's code is loaded, the one at the end does not. So the answer
  // does not depend on when the sampler came by.
  peaks.process = std::max(peaks.process, recorded + BeyondRecorded(device.breakdown_at_end));
  peaks.context = peaks.process - std::min(peaks.process, recorded);
  peaks.elsewhere = breakdown.any ? breakdown.values.other : device.peak_other.bytes;
  return peaks;
}

RunPeaks PeaksOf(const Analysis& analysis) {
  RunPeaks largest;
  for (const DeviceAnalysis& device : analysis.devices) {
    const RunPeaks peaks = PeaksOfDevice(device);
    if (largest.device < 0 || peaks.process > largest.process) largest = peaks;
  }
  return largest;
}

uint64_t Forecast::skew() const {
  uint64_t least = UINT64_MAX, most = 0;
  for (const PlannedProcess& process : processes) {
    least = std::min(least, process.peaks.process);
    most = std::max(most, process.peaks.process);
  }
  return most - std::min(least, most);
}

const VariedRun* Forecast::next_larger() const {
  const VariedRun* next = nullptr;
  for (const VariedRun& run : varied) {
    if (largest.empty() || run.with_zero || run.values.size() != largest.size()) continue;
    if (!std::equal(largest.begin(), largest.end() - 1, run.values.begin())) continue;
    if (run.values.back().second <= largest.back().second) continue;
    if (next == nullptr || run.values.back().second < next->values.back().second) next = &run;
  }
  return next;
}

uint64_t Forecast::managed() const {
  uint64_t bytes = 0;
  if (fullest() == nullptr) return 0;
  for (const size_t process : fullest()->processes) bytes += processes[process].managed;
  return bytes;
}

}  // namespace gpumem::plan
