// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/replay/segment_log.h"

#include <algorithm>

namespace gpumem {
namespace {

uint64_t KeyOf(Held kind, uint32_t place) { return static_cast<uint64_t>(kind) << 32 | place; }

bool IsSegment(const LiveState& state, uint64_t key) {
  const auto place = static_cast<uint32_t>(key);
  return static_cast<Held>(key >> 32) == Held::kAllocation ? state.cuda().allocations()[place].torch
                                                           : state.cuda().physicals()[place].torch;
}

}  // namespace

void SegmentLog::OnAlloc(const LiveState& state, Held kind, uint32_t place) {
  if (kind == Held::kBlock) return;
  Entry entry;
  if (kind == Held::kAllocation) {
    const CudaAllocation& allocation = state.cuda().allocations()[place];
    entry = {allocation.slot, static_cast<int64_t>(allocation.size)};
  } else {
    const PhysicalHandle& physical = state.cuda().physicals()[place];
    entry = {physical.slot, static_cast<int64_t>(physical.size)};
  }
  open_[KeyOf(kind, place)] = entries_.size();
  entries_.push_back(entry);
}

void SegmentLog::OnFree(const LiveState& state, Held kind, uint32_t place) {
  if (kind == Held::kBlock) return;
  const auto found = open_.find(KeyOf(kind, place));
  if (found == open_.end()) return;
  Entry& begun = entries_[found->second];
  begun.is_segment = IsSegment(state, found->first);
  const Entry ended{begun.slot, -begun.change, begun.is_segment};
  open_.erase(found);
  entries_.push_back(ended);
}

SegmentChanges SegmentLog::Finish(const LiveState& state) {
  for (const auto& [key, index] : open_) entries_[index].is_segment = IsSegment(state, key);
  SegmentChanges changes;
  for (const Entry& entry : entries_) {
    if (entry.is_segment) changes[DeviceOfSlot(entry.slot)].push_back(entry.change);
  }
  entries_.clear();
  open_.clear();
  return changes;
}

std::optional<SegmentDifference> FirstDifference(const SegmentChanges& recorded, const SegmentChanges& replayed) {
  SegmentChanges all = recorded;
  all.insert(replayed.begin(), replayed.end());
  static const std::vector<int64_t> kNone;
  for (const auto& [device, unused] : all) {
    const auto of = [device = device](const SegmentChanges& changes) -> const std::vector<int64_t>& {
      const auto found = changes.find(device);
      return found == changes.end() ? kNone : found->second;
    };
    const std::vector<int64_t>&a = of(recorded), &b = of(replayed);
    const auto [at_a, at_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    if (at_a == a.end() && at_b == b.end()) continue;
    return SegmentDifference{device, static_cast<size_t>(at_a - a.begin()), at_a == a.end() ? 0 : *at_a,
                             at_b == b.end() ? 0 : *at_b};
  }
  return std::nullopt;
}

SegmentCounts Count(const SegmentChanges& changes) {
  SegmentCounts counts;
  for (const auto& [device, list] : changes) {
    for (const int64_t change : list) ++(change > 0 ? counts.got : counts.given_back);
  }
  return counts;
}

}  // namespace gpumem
