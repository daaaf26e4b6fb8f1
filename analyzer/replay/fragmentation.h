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
  std::vector<CachePart> caches;                         // by stream and pool as segments have them, most free first
};

// The largest request that an expandable segment of the large pool serves by being mapped further, where CUDA has
// `free_on_device` bytes.
uint64_t LargestInExpandableSegments(const LiveState& state, uint32_t slot, uint64_t free_on_device);

FragmentationPoint MeasureFragmentation(const LiveState& state, uint32_t slot, uint64_t time_ns);
FragmentationDetail DetailFragmentation(const LiveState& state, uint32_t slot, uint64_t time_ns);

// FragmentationHistory: fragmentation over time, measured exactly at instants that thin out as the trace grows: at most
// 128 a device, about evenly spread over the events. Measuring sorts all live blocks, so it is also bounded by an
// allowance that grows with the events: it never takes more than a part of the replay's time. Not thread-safe.
class FragmentationHistory {
 public:
  // The next event at which Sample wants to be called.
  uint64_t next_event_index() const { return next_; }
  void Sample(const LiveState& state, uint64_t time_ns, uint64_t event_index);
  std::vector<FragmentationPoint> Points(uint32_t slot) const;

 private:
  static constexpr size_t kMaxSamples = 128;
  static constexpr uint64_t kFreeAllowance = 1'000'000;  // blocks sorted
  static constexpr uint64_t kAllowanceShare = 8;         // one more for so many events

  struct SampleOfAll {
    std::map<uint32_t, FragmentationPoint> by_slot;
  };

  uint64_t interval_ = 64;
  uint64_t next_ = 63;
  uint64_t spent_ = 0;
  std::vector<SampleOfAll> samples_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_FRAGMENTATION_H_
