// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/oom_moment.h"

#include <algorithm>

#include "replay/expandable_model.h"
#include "replay/fits.h"
#include "replay/fragmentation.h"
#include "replay/live_set.h"
#include "replay/state/accounts.h"

namespace gpumem {
namespace {

constexpr size_t kMaxPinsOfOom = 10;

// What CUDA could have given: as the device and the pool that was asked said, else what is not ours on it.
uint64_t FreeOnDevice(const OomEvent& oom) {
  const uint64_t idle_in_pool = oom.pool_reserved > oom.pool_used ? oom.pool_reserved - oom.pool_used : 0;
  if (oom.device_stated) return oom.device_free + idle_in_pool;
  return oom.device_total > oom.values.total ? oom.device_total - oom.values.total : 0;
}

bool HasExpandableSegments(const LiveState& state) {
  bool found = false;
  state.cuda().reservations().ForEach([&](const Reservation& reservation) { found |= reservation.torch; });
  return found;
}

// A limit that would have let the request through was set later.
void TakeLimit(const std::map<int, uint64_t>& limits, OomEvent* oom) {
  const auto found = limits.find(oom->device);
  if (found == limits.end() || oom->layer != kTorchLayer || oom->cuda_requested != 0) return;
  const uint64_t limit = found->second;
  if (limit < oom->values.reserved || LargestInNewSegment(limit - oom->values.reserved) >= oom->requested) return;
  oom->limited = true;
  oom->limit = limit;
}

// What PyTorch may still reserve. Of a limit that is not known: at most, since it refused this request.
uint64_t LeftByLimit(const OomEvent& oom) {
  if (oom.limit != 0) return oom.limit - oom.values.reserved;
  return oom.limited ? SegmentFor(oom.requested) - 1 : UINT64_MAX;
}

// The largest request that new memory of CUDA's could have served.
uint64_t LargestInNewMemory(const LiveState& state, uint32_t slot, const OomEvent& oom) {
  const uint64_t free = FreeOnDevice(oom);
  if (oom.layer != kTorchLayer) return RoundDown(free, kSegmentStep);
  const uint64_t by_limit = LargestInNewSegment(LeftByLimit(oom));
  if (oom.expandable_segments) return std::min(by_limit, LargestInExpandableSegments(state, slot, free));
  return std::min(by_limit, LargestInNewSegment(free));
}

void AddFits(const LiveState& state, uint32_t slot, OomEvent* oom) {
  oom->would_have_fit = std::max(LargestInNewMemory(state, slot, *oom), oom->fragmentation.largest_free_range);
  // This very request did not fit, whatever the free bytes say: they may be scattered, or forbidden.
  if (oom->requested > 0) oom->would_have_fit = std::min(oom->would_have_fit, oom->requested - 1);
  oom->fit_in_one_piece = std::min(FreeOnDevice(*oom), LeftByLimit(*oom)) + oom->fragmentation.free;
}

void Describe(const LiveState& state, const StackTable& names, const AllocatorSettings& settings, OomEvent* oom) {
  const uint32_t slot = SlotOfDevice(oom->device);
  if (const auto it = names.devices().find(oom->device); oom->device_total == 0 && it != names.devices().end())
    oom->device_total = it->second.total_bytes;
  if (slot >= state.slots()) return;
  oom->described = true;
  FragmentationDetail detail = DetailFragmentation(state, slot, oom->time_ns);
  oom->fragmentation = detail.all;
  oom->pins = std::move(detail.pins);
  if (oom->pins.size() > kMaxPinsOfOom) oom->pins.resize(kMaxPinsOfOom);
  oom->pin_groups = std::move(detail.groups);
  oom->whole_segments = detail.whole_segments;
  oom->whole_segment_bytes = detail.whole_segment_bytes;
  TakeLimit(settings.limits, oom);
  oom->expandable_segments =
      HasExpandableSegments(state) || (settings.expandable_segments && oom->values.reserved == 0);
  AddFits(state, slot, oom);
  const Measure measure = oom->values.allocated > 0 ? Measure::kAllocated : Measure::kTotal;
  oom->live = CollectLiveSet(state, slot, measure, oom->time_ns, oom->event_index, names);
}

void Estimate(OomEvent* oom, ExpandableModel* model) {
  if (oom->expandable_segments) return;
  const uint64_t of_device = FreeOnDevice(*oom) + oom->values.reserved;
  oom->fit_expandable = model->LargestFit(SlotOfDevice(oom->device), of_device,
                                          oom->limited ? oom->values.reserved + LeftByLimit(*oom) : UINT64_MAX);
}

}  // namespace

std::vector<Look> LooksAtOoms(const StackTable& names, const AllocatorSettings& settings, std::vector<OomEvent>* ooms) {
  std::vector<Look> looks;
  for (const bool final : {true, false}) {
    for (size_t i = ooms->size(); i-- > 0 && looks.size() < kMaxOomMoments;) {
      OomEvent* const oom = &(*ooms)[i];
      if (oom->final != final) continue;
      looks.push_back({oom->event_index,
                       [oom, &names, &settings](const LiveState& state) { Describe(state, names, settings, oom); }});
    }
  }
  return looks;
}

void EstimateExpandableFits(TraceReader* reader, const Checkpoints& checkpoints, std::vector<OomEvent>* ooms) {
  std::map<uint32_t, uint64_t> totals;
  for (const OomEvent& oom : *ooms)
    if (oom.device >= 0) totals[SlotOfDevice(oom.device)] = oom.device_total;
  ExpandableModel model(std::move(totals));
  std::vector<Look> looks;
  for (OomEvent& oom : *ooms) {
    if (!oom.described || !oom.final || oom.layer != kTorchLayer) continue;
    looks.push_back({oom.event_index, [&model, &oom](const LiveState&) { Estimate(&oom, &model); }});
  }
  if (looks.empty()) return;
  Revisit(reader, checkpoints, std::move(looks), [&model](LiveState* state) { model.Begin(state); });
}

}  // namespace gpumem
