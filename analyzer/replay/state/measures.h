// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a replay counts: which layers' events, and the four sums of a device.

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_MEASURES_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_MEASURES_H_

#include <cstdint>

namespace gpumem {

// Numbers of trace.proto's Layer.
enum class LayerFilter : uint8_t { kAll = 0, kDriver = 1, kRuntime = 2, kTorch = 3 };

// A series of a device over time.
enum class Measure : uint8_t { kAllocated = 0, kReserved = 1, kOther = 2, kTotal = 3 };

struct MeasureValues {
  uint64_t allocated = 0;
  uint64_t reserved = 0;
  uint64_t other = 0;
  uint64_t total = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STATE_MEASURES_H_
