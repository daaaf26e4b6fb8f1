// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/oom_moment.h"

#include <algorithm>
#include <iterator>

#include "replay/fragmentation.h"
#include "replay/free_space.h"
#include "replay/live_set.h"
#include "replay/state/accounts.h"

namespace gpumem {
namespace {

// No device has as much; a damaged trace may say so.
constexpr uint64_t kLargestBlock = uint64_t{1} << 44;

}  // namespace

void ExpandablePool::Reserve(uint64_t size) {
  top_ = end_ == 0 ? 0 : end_ + page_;  // never next to the one before
  end_ = top_ + std::max(reservation_, RoundUp(size, page_));
}

uint64_t ExpandablePool::Alloc(uint64_t size) {
  uint64_t address = 0, room = 0;
  if (const auto best = by_size_.lower_bound({size, 0}); best != by_size_.end()) {
    address = best->second;
    room = best->first;
    EraseFree(free_.find(address));
  } else {
    auto last = free_.empty() ? free_.end() : std::prev(free_.end());
    const bool is_at_top = last != free_.end() && last->first + last->second == top_;
    address = is_at_top ? last->first : top_;
    if (address + size > end_) {
      Reserve(size);
      address = top_;
    } else if (is_at_top) {
      EraseFree(last);
    }
    const uint64_t top = RoundUp(address + size, page_);
    mapped_ += top - top_;
    top_ = top;
    room = top_ - address;
  }
  blocks_[address] = size;
  if (room > size) AddFree(address + size, room - size);
  return address;
}

void ExpandablePool::Free(uint64_t address) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return;
  uint64_t start = address, end = address + block->second;
  blocks_.erase(block);
  if (const auto next = free_.find(end); next != free_.end()) {
    end += next->second;
    EraseFree(next);
  }
  if (auto before = free_.lower_bound(start); before != free_.begin()) {
    --before;
    if (before->first + before->second == start) {
      start = before->first;
      EraseFree(before);
    }
  }
  AddFree(start, end - start);
}

void ExpandablePool::AddFree(uint64_t address, uint64_t size) {
  free_[address] = size;
  by_size_.insert({size, address});
}

void ExpandablePool::EraseFree(std::map<uint64_t, uint64_t>::iterator range) {
  by_size_.erase({range->second, range->first});
  free_.erase(range);
}

uint64_t ExpandablePool::LeastMapped() const {
  uint64_t mapped = mapped_;
  for (const auto& [address, size] : free_) {
    const uint64_t first = RoundUp(address, page_), last = RoundDown(address + size, page_);
    if (last > first) mapped -= last - first;
  }
  return mapped;
}

uint64_t ExpandablePool::LargestFit(uint64_t free) const {
  const uint64_t pages = RoundDown(free, page_);
  uint64_t best = pages;  // in a new reservation
  for (const auto& [address, size] : free_) {
    const uint64_t end = address + size;
    const uint64_t first = RoundUp(address, page_), last = RoundDown(end, page_);
    uint64_t fit = size;
    if (end == top_) {
      fit = LargestInHole(first - address, end_ - first, 0, pages);
    } else if (last > first) {
      fit = LargestInHole(first - address, last - first, end - last, pages);
    }
    best = std::max(best, fit);
  }
  return best;
}

ExpandableModel::Device& ExpandableModel::DeviceOf(uint32_t slot) {
  const auto total = totals_.find(slot);
  uint64_t reservation = total == totals_.end() ? 0 : total->second;
  reservation = reservation == 0 ? kLargestBlock : std::min(reservation, kLargestBlock) / 8 * 9;
  return devices_.try_emplace(slot, Device{{kSmallPage, reservation}, {kLargePage, reservation}}).first->second;
}

void ExpandableModel::Begin(LiveState* state) {
  state_ = state;
  devices_.clear();
  placed_.clear();
  for (uint32_t place = 0; place < state->blocks().places(); ++place) {
    if (state->blocks()[place].live) OnAlloc(Held::kBlock, place);
  }
  state->Observe(this);
}

void ExpandableModel::OnAlloc(Held kind, uint32_t place) {
  if (kind != Held::kBlock) return;
  const TorchBlock& block = state_->blocks()[place];
  // A block is larger than was asked for where a rest was too small to be split off; expandable segments split all.
  if (std::max(block.size, block.requested) > kLargestBlock) return;
  uint64_t size = RoundUp(std::max<uint64_t>(block.requested == 0 ? block.size : block.requested, 1), kBlockStep);
  if (block.size > size + kLargestSmallBlock) size = RoundUp(block.size, kBlockStep);  // rounded on demand
  Placed placed{block.slot, size <= kLargestSmallBlock, 0};
  Device& device = DeviceOf(placed.slot);
  ExpandablePool& pool = placed.is_small ? device.small : device.large;
  if (pool.is_full()) return;
  placed.address = pool.Alloc(size);
  placed_[place] = placed;
}

void ExpandableModel::OnFree(Held kind, uint32_t place) {
  if (kind != Held::kBlock) return;
  const auto found = placed_.find(place);
  if (found == placed_.end()) return;
  Device& device = DeviceOf(found->second.slot);
  (found->second.is_small ? device.small : device.large).Free(found->second.address);
  placed_.erase(found);
}

std::optional<uint64_t> ExpandableModel::LargestFit(uint32_t slot, uint64_t bytes, uint64_t limit) {
  if (state_ == nullptr || state_->has_gap()) return std::nullopt;
  const Device& device = DeviceOf(slot);
  const uint64_t mapped = device.small.LeastMapped() + device.large.LeastMapped();
  // The limit is compared with the request, not with the pages that it needs.
  const uint64_t fit = device.large.LargestFit(bytes > mapped ? bytes - mapped : 0);
  return std::min(fit, std::max(LargestInNewSegment(limit > mapped ? limit - mapped : 0), device.large.LargestFit(0)));
}

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

std::vector<StateLook> LooksAtOoms(const StackTable& names, const AllocatorSettings& settings,
                                   std::vector<OomEvent>* ooms) {
  std::vector<StateLook> looks;
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
  std::vector<StateLook> looks;
  for (OomEvent& oom : *ooms) {
    if (!oom.described || !oom.final || oom.layer != kTorchLayer) continue;
    looks.push_back({oom.event_index, [&model, &oom](const LiveState&) { Estimate(&oom, &model); }});
  }
  if (looks.empty()) return;
  Revisit(reader, checkpoints, std::move(looks), [&model](LiveState* state) { model.Begin(state); });
}

}  // namespace gpumem
