// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/fragmentation.h"

#include <algorithm>
#include <set>
#include <utility>

#include "replay/free_space.h"

namespace gpumem {
namespace {

constexpr size_t kMaxPins = 20;
// What goes back to CUDA in one piece: an allocation, or one mapping.
struct GranuleUnit {
  uint64_t start = 0, end = 0;
  uint32_t reservation = UINT32_MAX;  // place; UINT32_MAX = an allocation
  SegmentOwner owner;
};

struct Range {
  uint64_t start = 0, end = 0;
  const TorchBlock* block = nullptr;
  bool is_pending = false;  // LiveState::pending_frees
};

// A contiguous stretch of units that a block may span: units [first_unit, last_unit), blocks [first_block, last_block).
struct Segment {
  uint64_t start = 0, end = 0;
  size_t first_unit = 0, last_unit = 0;
  size_t first_block = 0, last_block = 0;
  uint64_t used = 0, pending = 0;
  bool expandable = false;
};

class Layout {
 public:
  Layout(const LiveState& state, uint32_t slot) {
    CollectUnits(state, slot);
    CollectBlocks(state, slot);
    JoinSegments();
  }

  void AddGaps(const Segment& segment, FragmentationPoint* point) const;
  template <typename Visit>
  void ForEachGap(const Segment& segment, Visit visit) const;
  std::string PoolOf(const Segment& segment) const;
  std::vector<CachePart> Caches() const;
  std::vector<PinningBlock> Pins() const;
  std::vector<PinGroup> Groups() const;
  uint64_t LargestInHoles(const LiveState& state, uint64_t pages) const;
  const std::vector<Segment>& segments() const { return segments_; }
  const std::vector<Range>& blocks() const { return blocks_; }

 private:
  void CollectUnits(const LiveState& state, uint32_t slot);
  void CollectBlocks(const LiveState& state, uint32_t slot);
  void JoinSegments();
  void AddPins(const Segment& segment, std::vector<PinningBlock>* pins) const;
  template <typename Visit>
  void ForEachUnit(const Segment& segment, Visit visit) const;

  std::vector<GranuleUnit> units_;
  std::vector<Range> blocks_;
  std::vector<Segment> segments_;
};

void Layout::CollectUnits(const LiveState& state, uint32_t slot) {
  const CudaMemory& cuda = state.cuda();
  cuda.allocations().ForEach([&](const CudaAllocation& allocation) {
    if (allocation.torch && allocation.slot == slot) {
      units_.push_back({allocation.address, std::max(allocation.address, allocation.address + allocation.size),
                        UINT32_MAX, allocation.owner});
    }
  });
  for (const auto& [address, mapping] : cuda.mappings()) {
    const Reservation& reservation = cuda.reservations()[mapping.reservation];
    if (!reservation.torch || cuda.physicals()[mapping.physical].slot != slot) continue;
    units_.push_back({address, std::max(address, address + mapping.size), mapping.reservation, reservation.owner});
  }
  std::sort(units_.begin(), units_.end(), [](const GranuleUnit& a, const GranuleUnit& b) { return a.start < b.start; });
  for (size_t i = 1; i < units_.size(); ++i) units_[i - 1].end = std::min(units_[i - 1].end, units_[i].start);
}

void Layout::CollectBlocks(const LiveState& state, uint32_t slot) {
  state.blocks().ForEach([&](const TorchBlock& block) {
    if (block.slot == slot)
      blocks_.push_back({block.address, std::max(block.address, block.address + block.size), &block});
  });
  for (const auto& [address, block] : state.pending_frees()) {
    if (block.slot == slot) blocks_.push_back({address, std::max(address, address + block.size), &block, true});
  }
  std::sort(blocks_.begin(), blocks_.end(), [](const Range& a, const Range& b) { return a.start < b.start; });
  // Blocks overlap only where a free was lost; then the later one is right.
  for (size_t i = 1; i < blocks_.size(); ++i) blocks_[i - 1].end = std::min(blocks_[i - 1].end, blocks_[i].start);
}

void Layout::JoinSegments() {
  size_t block = 0;
  for (size_t i = 0; i < units_.size(); ++i) {
    const GranuleUnit& unit = units_[i];
    const bool joins = i > 0 && unit.reservation != UINT32_MAX && unit.reservation == units_[i - 1].reservation &&
                       units_[i - 1].end == unit.start;
    if (!joins) {
      segments_.push_back({});
      segments_.back().start = unit.start;
      segments_.back().first_unit = i;
      segments_.back().expandable = unit.reservation != UINT32_MAX;
      while (block < blocks_.size() && blocks_[block].start < unit.start) ++block;
      segments_.back().first_block = block;
    }
    Segment& segment = segments_.back();
    segment.end = unit.end;
    segment.last_unit = i + 1;
    for (; block < blocks_.size() && blocks_[block].start < unit.end; ++block)
      (blocks_[block].is_pending ? segment.pending : segment.used) += blocks_[block].end - blocks_[block].start;
    segment.last_block = block;
  }
}

template <typename Visit>
void Layout::ForEachGap(const Segment& segment, Visit visit) const {
  uint64_t at = segment.start;
  for (size_t i = segment.first_block; i < segment.last_block; ++i) {
    if (blocks_[i].start > at) visit(at, blocks_[i].start);
    at = std::max(at, blocks_[i].end);
  }
  if (segment.end > at) visit(at, segment.end);
}

// visit(unit, first block in it, one after the last): a block may reach into several units.
template <typename Visit>
void Layout::ForEachUnit(const Segment& segment, Visit visit) const {
  size_t first = segment.first_block;
  for (size_t i = segment.first_unit; i < segment.last_unit; ++i) {
    while (first < segment.last_block && blocks_[first].end <= units_[i].start) ++first;
    size_t last = first;
    while (last < segment.last_block && blocks_[last].start < units_[i].end) ++last;
    visit(units_[i], first, last);
  }
}

void Layout::AddGaps(const Segment& segment, FragmentationPoint* point) const {
  ForEachGap(segment, [&](uint64_t from, uint64_t until) {
    point->free += until - from;
    point->largest_free_range = std::max(point->largest_free_range, until - from);
    ++point->free_ranges;
  });
  point->pending += segment.pending;
  // empty_cache() waits for the other streams first.
  ForEachUnit(segment, [&](const GranuleUnit& unit, size_t first, size_t last) {
    for (; first < last && blocks_[first].is_pending; ++first) continue;
    if (first == last) point->empty_cache += unit.end - unit.start;
  });
}

std::string Layout::PoolOf(const Segment& segment) const {
  if (segment.expandable) return "expandable";
  if (segment.end - segment.start != kSmallPage) return "large";
  for (size_t i = segment.first_block; i < segment.last_block; ++i) {
    if (blocks_[i].block->size > kLargestSmallBlock) return "large";
  }
  return "small";
}

std::vector<CachePart> Layout::Caches() const {
  std::map<std::pair<uint64_t, uint64_t>, CachePart> parts;
  for (const Segment& segment : segments_) {
    const SegmentOwner& owner = units_[segment.first_unit].owner;
    if (!owner.is_known) continue;  // made for the block that comes next
    CachePart& part = parts[{owner.stream, owner.pool}];
    part.stream = owner.stream;
    part.pool = owner.pool;
    FragmentationPoint gaps;
    AddGaps(segment, &gaps);
    ++part.segments;
    part.reserved += segment.end - segment.start;
    part.free += gaps.free;
    part.pending += segment.pending;
    part.empty += gaps.empty_cache;
  }
  std::vector<CachePart> sorted;
  for (const auto& [owner, part] : parts) sorted.push_back(part);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const CachePart& a, const CachePart& b) { return a.free > b.free; });
  return sorted;
}

// The blocks that alone keep units of this segment, and take at most half of what they keep.
void Layout::AddPins(const Segment& segment, std::vector<PinningBlock>* pins) const {
  std::vector<uint64_t> returnable(segment.last_block - segment.first_block, 0);
  size_t block = segment.first_block;
  for (size_t i = segment.first_unit; i < segment.last_unit; ++i) {
    while (block < segment.last_block && blocks_[block].end <= units_[i].start) ++block;
    const bool is_used = block < segment.last_block && blocks_[block].start < units_[i].end;
    const bool is_alone = block + 1 >= segment.last_block || blocks_[block + 1].start >= units_[i].end;
    if (is_used && is_alone) returnable[block - segment.first_block] += units_[i].end - units_[i].start;
  }
  for (size_t i = 0; i < returnable.size(); ++i) {
    const TorchBlock& held = *blocks_[segment.first_block + i].block;
    if (returnable[i] == 0 || held.size > returnable[i] / 2 || blocks_[segment.first_block + i].is_pending) continue;
    PinningBlock pin;
    pin.segment_address = segment.start;
    pin.segment_bytes = segment.end - segment.start;
    pin.segment_free = pin.segment_bytes - std::min(pin.segment_bytes, segment.used);
    pin.block_address = held.address;
    pin.block_bytes = held.size;
    pin.blocks_in_segment = segment.last_block - segment.first_block;
    pin.returnable = returnable[i];
    pin.stack_id = held.stack;
    pin.allocated_ns = held.time_ns;
    pins->push_back(pin);
  }
}

std::vector<PinningBlock> Layout::Pins() const {
  std::vector<PinningBlock> pins;
  for (const Segment& segment : segments_) AddPins(segment, &pins);
  std::sort(pins.begin(), pins.end(), [](const PinningBlock& a, const PinningBlock& b) {
    return a.returnable != b.returnable ? a.returnable > b.returnable : a.block_address < b.block_address;
  });
  if (pins.size() > kMaxPins) pins.resize(kMaxPins);
  return pins;
}

// Adds up, by the stacks of their blocks, the units that their blocks fill to half at most.
class PinGrouper {
 public:
  explicit PinGrouper(const std::vector<Range>& blocks) : blocks_(blocks) {}

  // Blocks [first, last) lie in the unit, or reach into it.
  void Add(const GranuleUnit& unit, size_t first, size_t last) {
    uint64_t used = 0;
    std::vector<uint64_t> stacks;
    for (size_t i = first; i < last; ++i) {
      if (blocks_[i].is_pending) return;  // no line has to free it
      used += std::min(blocks_[i].end, unit.end) - std::max(blocks_[i].start, unit.start);
      const uint64_t stack = blocks_[i].block->stack;
      if (std::find(stacks.begin(), stacks.end(), stack) == stacks.end()) stacks.push_back(stack);
      if (stacks.size() > kMaxStacks) return;
    }
    const uint64_t size = unit.end - unit.start;
    if (used > size / 2) return;
    std::sort(stacks.begin(), stacks.end());
    PinGroup& group = groups_[stacks];
    ++group.segments;
    group.returnable += size;
    group.pages |= unit.reservation != UINT32_MAX;
    for (size_t i = first; i < last; ++i) {
      const TorchBlock& block = *blocks_[i].block;
      if (!counted_.emplace(&group, block.address).second) continue;
      ++group.blocks;
      group.block_bytes += block.size;
      group.oldest_ns = group.blocks == 1 ? block.time_ns : std::min(group.oldest_ns, block.time_ns);
    }
  }

  std::vector<PinGroup> Take() {
    std::vector<PinGroup> groups;
    for (auto& [stacks, group] : groups_) {
      groups.push_back(group);
      groups.back().stack_ids = stacks;
    }
    std::stable_sort(groups.begin(), groups.end(),
                     [](const PinGroup& a, const PinGroup& b) { return a.returnable > b.returnable; });
    return groups;
  }

 private:
  // A segment that is kept from so many places has no line to be mended.
  static constexpr size_t kMaxStacks = 8;

  const std::vector<Range>& blocks_;
  std::map<std::vector<uint64_t>, PinGroup> groups_;
  std::set<std::pair<const PinGroup*, uint64_t>> counted_;  // a block may keep several units
};

std::vector<PinGroup> Layout::Groups() const {
  PinGrouper grouper(blocks_);
  for (const Segment& segment : segments_) {
    ForEachUnit(segment, [&](const GranuleUnit& unit, size_t first, size_t last) {
      if (first < last) grouper.Add(unit, first, last);
    });
  }
  return grouper.Take();
}

uint64_t Layout::LargestInHoles(const LiveState& state, uint64_t pages) const {
  const auto is_large = [&](const Segment& segment) {
    const GranuleUnit& unit = units_[segment.first_unit];
    return segment.expandable && unit.end - unit.start > kSmallPage;
  };
  const auto is_same = [&](const Segment& a, const Segment& b) {
    return units_[a.first_unit].reservation == units_[b.first_unit].reservation;
  };
  const auto reservation_end = [&](const Segment& segment) {
    const Reservation& reservation = state.cuda().reservations()[units_[segment.first_unit].reservation];
    return reservation.address + std::min(reservation.size, UINT64_MAX - reservation.address);
  };
  uint64_t best = pages;  // in a new reservation
  for (size_t i = 0; i < segments_.size(); ++i) {
    const Segment& segment = segments_[i];
    if (!is_large(segment)) continue;
    const bool is_empty = segment.first_block == segment.last_block;
    const uint64_t last_used = is_empty ? segment.start : blocks_[segment.last_block - 1].end;
    uint64_t hole = reservation_end(segment) - std::min(reservation_end(segment), segment.end), after = 0;
    if (i + 1 < segments_.size() && is_large(segments_[i + 1]) && is_same(segment, segments_[i + 1])) {
      const Segment& next = segments_[i + 1];
      hole = next.start - segment.end;
      after = (next.first_block == next.last_block ? next.end : blocks_[next.first_block].start) - next.start;
    }
    best = std::max(best, LargestInHole(segment.end - std::min(segment.end, last_used), hole, after, pages));
  }
  return best;
}

void AddRounding(const Range& range, FragmentationPoint* point) {
  if (range.block->requested == 0 || range.is_pending) return;
  point->requested_known = true;
  point->rounding += range.block->size - std::min(range.block->size, range.block->requested);
}

void SetRatio(FragmentationPoint* point) {
  point->external_ratio =
      point->free == 0 ? 0 : 1 - static_cast<double>(point->largest_free_range) / static_cast<double>(point->free);
}

FragmentationPoint Whole(const Layout& layout, const LiveState& state, uint32_t slot, uint64_t time_ns) {
  FragmentationPoint point;
  point.time_ns = time_ns;
  point.reserved = state.values(slot).reserved;
  point.allocated = state.values(slot).allocated;
  for (const Segment& segment : layout.segments()) layout.AddGaps(segment, &point);
  for (const Range& range : layout.blocks()) AddRounding(range, &point);
  SetRatio(&point);
  return point;
}

}  // namespace

uint64_t LargestInExpandableSegments(const LiveState& state, uint32_t slot, uint64_t free_on_device) {
  return Layout(state, slot).LargestInHoles(state, RoundDown(free_on_device, kLargePage));
}

FragmentationPoint MeasureFragmentation(const LiveState& state, uint32_t slot, uint64_t time_ns) {
  return Whole(Layout(state, slot), state, slot, time_ns);
}

FragmentationDetail DetailFragmentation(const LiveState& state, uint32_t slot, uint64_t time_ns) {
  const Layout layout(state, slot);
  FragmentationDetail detail;
  detail.all = Whole(layout, state, slot, time_ns);
  detail.pins = layout.Pins();
  detail.groups = layout.Groups();
  detail.caches = layout.Caches();
  for (const Segment& segment : layout.segments()) {
    if (segment.first_block == segment.last_block) {
      ++detail.whole_segments;
      detail.whole_segment_bytes += segment.end - segment.start;
    }
    FragmentationPoint& pool = detail.pools[layout.PoolOf(segment)];
    pool.time_ns = time_ns;
    pool.reserved += segment.end - segment.start;
    pool.allocated += segment.used;
    layout.AddGaps(segment, &pool);
    for (size_t i = segment.first_block; i < segment.last_block; ++i) AddRounding(layout.blocks()[i], &pool);
  }
  for (auto& [name, pool] : detail.pools) SetRatio(&pool);
  return detail;
}

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
