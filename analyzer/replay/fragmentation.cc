// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/fragmentation.h"

#include <algorithm>

namespace gpumem {
namespace {

constexpr uint64_t kSmallSegment = 2u << 20;
constexpr uint64_t kLargestSmallBlock = 1u << 20;
constexpr size_t kMaxPins = 20;

// What goes back to CUDA in one piece: an allocation, or one mapping.
struct Unit {
  uint64_t start = 0, end = 0;
  uint32_t reservation = UINT32_MAX;  // place; UINT32_MAX = an allocation
};

struct Range {
  uint64_t start = 0, end = 0;
  const TorchBlock* block = nullptr;
};

// A contiguous stretch of units that a block may span: units [first_unit, last_unit), blocks [first_block, last_block).
struct Segment {
  uint64_t start = 0, end = 0;
  size_t first_unit = 0, last_unit = 0;
  size_t first_block = 0, last_block = 0;
  uint64_t used = 0;
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
  std::vector<PinningBlock> Pins() const;
  const std::vector<Segment>& segments() const { return segments_; }
  const std::vector<Range>& blocks() const { return blocks_; }

 private:
  void CollectUnits(const LiveState& state, uint32_t slot);
  void CollectBlocks(const LiveState& state, uint32_t slot);
  void JoinSegments();
  void AddPins(const Segment& segment, std::vector<PinningBlock>* pins) const;

  std::vector<Unit> units_;
  std::vector<Range> blocks_;
  std::vector<Segment> segments_;
};

void Layout::CollectUnits(const LiveState& state, uint32_t slot) {
  const CudaMemory& cuda = state.cuda();
  cuda.allocations().ForEach([&](const CudaAllocation& allocation) {
    if (allocation.torch && allocation.slot == slot) {
      units_.push_back({allocation.address, std::max(allocation.address, allocation.address + allocation.size)});
    }
  });
  for (const auto& [address, mapping] : cuda.mappings()) {
    if (!cuda.reservations()[mapping.reservation].torch || cuda.physicals()[mapping.physical].slot != slot) continue;
    units_.push_back({address, std::max(address, address + mapping.size), mapping.reservation});
  }
  std::sort(units_.begin(), units_.end(), [](const Unit& a, const Unit& b) { return a.start < b.start; });
  for (size_t i = 1; i < units_.size(); ++i) units_[i - 1].end = std::min(units_[i - 1].end, units_[i].start);
}

void Layout::CollectBlocks(const LiveState& state, uint32_t slot) {
  state.blocks().ForEach([&](const TorchBlock& block) {
    if (block.slot == slot)
      blocks_.push_back({block.address, std::max(block.address, block.address + block.size), &block});
  });
  std::sort(blocks_.begin(), blocks_.end(), [](const Range& a, const Range& b) { return a.start < b.start; });
  // Blocks overlap only where a free was lost; then the later one is right.
  for (size_t i = 1; i < blocks_.size(); ++i) blocks_[i - 1].end = std::min(blocks_[i - 1].end, blocks_[i].start);
}

void Layout::JoinSegments() {
  size_t block = 0;
  for (size_t i = 0; i < units_.size(); ++i) {
    const Unit& unit = units_[i];
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
      segment.used += blocks_[block].end - blocks_[block].start;
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

void Layout::AddGaps(const Segment& segment, FragmentationPoint* point) const {
  ForEachGap(segment, [&](uint64_t from, uint64_t until) {
    point->free += until - from;
    point->largest_free_range = std::max(point->largest_free_range, until - from);
    ++point->free_ranges;
  });
}

std::string Layout::PoolOf(const Segment& segment) const {
  if (segment.expandable) return "expandable";
  if (segment.end - segment.start != kSmallSegment) return "large";
  for (size_t i = segment.first_block; i < segment.last_block; ++i) {
    if (blocks_[i].block->size > kLargestSmallBlock) return "large";
  }
  return "small";
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
    if (returnable[i] == 0 || held.size > returnable[i] / 2) continue;
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

void AddRounding(const TorchBlock& block, FragmentationPoint* point) {
  if (block.requested == 0) return;
  point->requested_known = true;
  point->rounding += block.size - std::min(block.size, block.requested);
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
  for (const Range& range : layout.blocks()) AddRounding(*range.block, &point);
  SetRatio(&point);
  return point;
}

}  // namespace

IdleSpace MeasureIdleSpace(const LiveState& state, uint32_t slot) {
  const Layout layout(state, slot);
  IdleSpace idle;
  for (const Segment& segment : layout.segments()) {
    if (segment.first_block == segment.last_block) {
      ++idle.whole_segments;
      idle.whole_segment_bytes += segment.end - segment.start;
    }
    layout.ForEachGap(segment, [&](uint64_t from, uint64_t until) {
      const uint64_t first_page = from / kSmallSegment + (from % kSmallSegment != 0 ? 1 : 0);
      const uint64_t end_page = until / kSmallSegment;
      if (end_page > first_page) idle.page_bytes += (end_page - first_page) * kSmallSegment;
    });
  }
  return idle;
}

FragmentationPoint MeasureFragmentation(const LiveState& state, uint32_t slot, uint64_t time_ns) {
  return Whole(Layout(state, slot), state, slot, time_ns);
}

FragmentationDetail DetailFragmentation(const LiveState& state, uint32_t slot, uint64_t time_ns) {
  const Layout layout(state, slot);
  FragmentationDetail detail;
  detail.all = Whole(layout, state, slot, time_ns);
  detail.pins = layout.Pins();
  for (const Segment& segment : layout.segments()) {
    FragmentationPoint& pool = detail.pools[layout.PoolOf(segment)];
    pool.time_ns = time_ns;
    pool.reserved += segment.end - segment.start;
    pool.allocated += segment.used;
    layout.AddGaps(segment, &pool);
    for (size_t i = segment.first_block; i < segment.last_block; ++i) AddRounding(*layout.blocks()[i].block, &pool);
  }
  for (auto& [name, pool] : detail.pools) SetRatio(&pool);
  return detail;
}

}  // namespace gpumem
