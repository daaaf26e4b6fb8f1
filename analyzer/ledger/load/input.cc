// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/load/input.h"

namespace gpumem {

const DeviceAnalysis* LargestDevice(const Analysis& analysis) {
  const DeviceAnalysis* largest = nullptr;
  for (const DeviceAnalysis& device : analysis.devices) {
    const auto size = [](const DeviceAnalysis& d) { return std::max(d.peak_total.bytes, d.peak_allocated.bytes); };
    if (largest == nullptr || size(device) > size(*largest)) largest = &device;
  }
  return largest;
}

const SeriesPeak& PeakOf(const DeviceAnalysis& device, Measure measure) {
  switch (measure) {
    case Measure::kAllocated:
      return device.peak_allocated;
    case Measure::kReserved:
      return device.peak_reserved;
    case Measure::kOther:
      return device.peak_other;
    case Measure::kTotal:
      break;
  }
  return device.peak_total;
}

const LiveSet& LiveAtPeak(const DeviceAnalysis& device, Measure measure) {
  switch (measure) {
    case Measure::kAllocated:
      return device.at_peak_allocated;
    case Measure::kReserved:
      return device.at_peak_reserved;
    case Measure::kOther:
    case Measure::kTotal:
      break;
  }
  return device.at_peak_total;
}

}  // namespace gpumem
