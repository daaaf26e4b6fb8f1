// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/fragmentation_history.h"

#include <utility>

#include "replay/fragmentation.h"

namespace gpumem {

void FragmentationHistory::Sample(const LiveState& state, uint64_t time_ns, uint64_t event_index) {
  next_ = event_index + interval_;
  const uint64_t cost = state.blocks().size() + 1;
  if (spent_ + cost > kFreeAllowance + event_index / kAllowanceShare) return;
  spent_ += cost;
  SampleOfAll sample;
  for (uint32_t slot = 0; slot < state.slots(); ++slot) {
    if (state.accounts().devices[slot].torch_events > 0)
      sample.by_slot[slot] = MeasureFragmentation(state, slot, time_ns);
  }
  samples_.push_back(std::move(sample));
  if (samples_.size() < kMaxSamples) return;
  std::vector<SampleOfAll> kept;
  for (size_t i = 1; i < samples_.size(); i += 2) kept.push_back(std::move(samples_[i]));
  samples_ = std::move(kept);
  interval_ *= 2;
}

std::vector<FragmentationPoint> FragmentationHistory::Points(uint32_t slot) const {
  std::vector<FragmentationPoint> points;
  for (const SampleOfAll& sample : samples_) {
    if (const auto it = sample.by_slot.find(slot); it != sample.by_slot.end()) points.push_back(it->second);
  }
  return points;
}

}  // namespace gpumem
