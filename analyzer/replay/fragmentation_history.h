// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// FragmentationHistory: fragmentation over time, measured exactly at instants that thin out as the trace grows: at most
// 128 a device, about evenly spread over the events. Measuring sorts all live blocks, so it is also bounded by an
// allowance that grows with the events: it never takes more than a part of the replay's time. Not thread-safe.

#ifndef GPUMEM_ANALYZER_REPLAY_FRAGMENTATION_HISTORY_H_
#define GPUMEM_ANALYZER_REPLAY_FRAGMENTATION_HISTORY_H_

#include <cstdint>
#include <map>
#include <vector>

#include "replay/analysis.h"
#include "replay/state/live_state.h"

namespace gpumem {

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

#endif  // GPUMEM_ANALYZER_REPLAY_FRAGMENTATION_HISTORY_H_
