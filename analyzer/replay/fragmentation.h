// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How free space lies inside a device's PyTorch segments at one instant, from the exact places of all blocks.
//
// A free range is a maximal gap between blocks inside one segment; of an expandable segment, inside one contiguously
// mapped range. Pools are inferred, as PyTorch reports none: a segment of 2 MiB whose blocks are all at most 1 MiB is
// of the small pool, a mapped reservation is expandable, everything else is large. Blocks outside all segments (their
// cudaMalloc was not seen) count as allocated only.
//
// Pure functions of a LiveState; O(n log n) in its blocks.

#ifndef GPUMEM_ANALYZER_REPLAY_FRAGMENTATION_H_
#define GPUMEM_ANALYZER_REPLAY_FRAGMENTATION_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "replay/analysis.h"
#include "replay/state/live_state.h"

namespace gpumem {

struct FragmentationDetail {
  FragmentationPoint all;
  std::map<std::string, FragmentationPoint> pools;
  std::vector<PinningBlock> pins;                        // largest returnable first, at most 20
  std::vector<PinGroup> groups;                          // all, largest returnable first
  uint64_t whole_segments = 0, whole_segment_bytes = 0;  // that hold no block
};

// The largest request that an expandable segment of the large pool serves by being mapped further, where CUDA has
// `free_on_device` bytes.
uint64_t LargestInExpandableSegments(const LiveState& state, uint32_t slot, uint64_t free_on_device);

FragmentationPoint MeasureFragmentation(const LiveState& state, uint32_t slot, uint64_t time_ns);
FragmentationDetail DetailFragmentation(const LiveState& state, uint32_t slot, uint64_t time_ns);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_FRAGMENTATION_H_
