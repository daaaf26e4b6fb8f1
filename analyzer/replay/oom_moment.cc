// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/oom_moment.h"

#include <algorithm>

#include "replay/accounts.h"
#include "replay/fragmentation.h"
#include "replay/live_set.h"

namespace gpumem {
namespace {

constexpr uint64_t kSegmentStep = 2u << 20;  // CUDA hands out device memory, and PyTorch asks for it, in such steps
constexpr size_t kMaxPins = 10;

// What CUDA could have given: as the device and the pool that was asked said, else what is not ours on it.
uint64_t FreeOnDevice(const OomEvent& oom) {
  const uint64_t idle_in_pool = oom.pool_reserved > oom.pool_used ? oom.pool_reserved - oom.pool_used : 0;
  if (oom.device_stated) return oom.device_free + idle_in_pool;
  return oom.device_total > oom.values.total ? oom.device_total - oom.values.total : 0;
}

void AddFits(const IdleSpace& idle, OomEvent* oom) {
  const uint64_t device_free = FreeOnDevice(*oom);
  const uint64_t in_steps = device_free / kSegmentStep * kSegmentStep;
  oom->would_have_fit = std::max(in_steps, oom->fragmentation.largest_free_range);
  // This very request did not fit, whatever the free bytes say: they may be scattered, or forbidden.
  if (oom->requested > 0) oom->would_have_fit = std::min(oom->would_have_fit, oom->requested - 1);
  oom->fit_in_one_piece = device_free + oom->fragmentation.free;
  oom->fit_expandable = in_steps + idle.page_bytes;
}

void Describe(const LiveState& state, const StackTable& names, OomEvent* oom) {
  const uint32_t slot = SlotOfDevice(oom->device);
  if (const auto it = names.devices().find(oom->device); oom->device_total == 0 && it != names.devices().end())
    oom->device_total = it->second.total_bytes;
  if (slot >= state.slots()) return;
  oom->described = true;
  FragmentationDetail detail = DetailFragmentation(state, slot, oom->time_ns);
  oom->fragmentation = detail.all;
  oom->pins = std::move(detail.pins);
  if (oom->pins.size() > kMaxPins) oom->pins.resize(kMaxPins);
  const IdleSpace idle = MeasureIdleSpace(state, slot);
  oom->whole_segments = idle.whole_segments;
  oom->whole_segment_bytes = idle.whole_segment_bytes;
  AddFits(idle, oom);
  const Measure measure = oom->values.allocated > 0 ? Measure::kAllocated : Measure::kTotal;
  oom->live = CollectLiveSet(state, slot, measure, oom->time_ns, oom->event_index, names);
}

}  // namespace

std::vector<Look> LooksAtOoms(const StackTable& names, std::vector<OomEvent>* ooms) {
  std::vector<Look> looks;
  for (const bool final : {true, false}) {
    for (size_t i = ooms->size(); i-- > 0 && looks.size() < kMaxOomMoments;) {
      OomEvent* const oom = &(*ooms)[i];
      if (oom->final != final) continue;
      looks.push_back({oom->event_index, [oom, &names](const LiveState& state) { Describe(state, names, oom); }});
    }
  }
  return looks;
}

}  // namespace gpumem
