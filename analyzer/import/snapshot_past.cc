// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/snapshot_past.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace gpumem {
namespace {

constexpr uint64_t kSmallest = 512;
constexpr uint64_t kLeastRest = 1u << 20;  // of large segments
constexpr int kFirstInterval = 20;         // of roundup_power2_divisions: 1 MiB

int Log2(uint64_t value) { return 63 - __builtin_clzll(value | 1); }

// Up to the next of `divisions` equal steps between two powers of two.
uint64_t NextStep(uint64_t size, uint64_t divisions) {
  if ((size & (size - 1)) == 0) return size;
  const uint64_t floor = uint64_t{1} << Log2(size);
  const uint64_t step = floor >> Log2(divisions);
  if (step == 0) return floor << 1;
  return (size + step - 1) & ~(step - 1);
}

}  // namespace

uint64_t BlockSizes::Rounded(uint64_t requested) const {
  if (requested < kSmallest) return kSmallest;
  if (requested > uint64_t{1} << 60) return requested;
  if (!divisions_.empty()) {
    const int interval = std::clamp(Log2(requested) - kFirstInterval, 0, static_cast<int>(divisions_.size()) - 1);
    const uint64_t divisions = divisions_[static_cast<size_t>(interval)];
    if (divisions > 1 && requested / kSmallest > divisions) return NextStep(requested, divisions);
  }
  return (requested + kSmallest - 1) / kSmallest * kSmallest;
}

uint64_t BlockSizes::Taken(uint64_t requested, uint64_t free, bool splits_small) const {
  const uint64_t rounded = Rounded(requested);
  if (rounded >= free) return free;
  const uint64_t rest = free - rounded;
  if (splits_small) return rest >= kSmallest ? rounded : free;
  return rounded < max_split_ && rest > kLeastRest ? rounded : free;
}

namespace {

constexpr uint64_t kSmallSegment = 2u << 20;  // all others are larger
// Of what is alive, at the most: a place in a tree; and at the beginning also a row of the trace, in a vector that
// grows.
constexpr uint64_t kPlaceBytes = 128, kBeginningBytes = 512;

const std::vector<SnapshotEntry>& TraceOf(const TorchSnapshot& snapshot, int device) {
  static const auto* const kNone = new std::vector<SnapshotEntry>;
  const auto index = static_cast<size_t>(device);
  return index < snapshot.traces.size() ? snapshot.traces[index] : *kNone;
}

// The value whose key is the last one at or below `at`; the end where there is none.
template <typename Map>
auto AtOrBelow(Map& map, uint64_t at) {
  auto found = map.upper_bound(at);
  return found == map.begin() ? map.end() : std::prev(found);
}

}  // namespace

SnapshotPast::SnapshotPast(const TorchSnapshot& snapshot, int device, ImportMemory* memory)
    : device_(device),
      memory_(memory),
      trace_(&TraceOf(snapshot, device)),
      owners_(&snapshot.owners),
      rules_(snapshot.max_split_size, snapshot.roundup_divisions),
      sizes_(trace_->size()),
      pools_(trace_->size()),
      kinds_(trace_->size()) {
  TakeEnd(snapshot);
  GoBack();
  if (memory_->is_over()) return;
  SizeBlocksOfBeginning();
  GoForward();
  has_memory_ = !trace_->empty() || !segments_.empty() || !mapped_.empty();
}

void SnapshotPast::Contradict(size_t i, absl::string_view what) {
  if (contradictions_++ == 0) {
    const SnapshotEntry& entry = (*trace_)[i];
    first_contradiction_ =
        absl::StrCat("entry ", i, " of device ", device_, ", 0x", absl::Hex(entry.address), ": ", what);
  }
}

void SnapshotPast::AddRange(uint64_t from, uint64_t to, Ranges* ranges) {
  auto at = AtOrBelow(*ranges, from);
  if (at != ranges->end() && at->second >= from) {
    from = at->first;
    to = std::max(to, at->second);
    ranges->erase(at);
  }
  for (at = ranges->lower_bound(from); at != ranges->end() && at->first <= to; at = ranges->lower_bound(from)) {
    to = std::max(to, at->second);
    ranges->erase(at);
  }
  (*ranges)[from] = to;
}

// False: not all of it was there; what was there is gone nevertheless.
bool SnapshotPast::TakeRange(uint64_t from, uint64_t to, Ranges* ranges) {
  const auto around = AtOrBelow(*ranges, from);
  if (around == ranges->end() || around->second < to) return false;
  const auto [begin, end] = *around;
  ranges->erase(around);
  if (begin < from) (*ranges)[begin] = from;
  if (to < end) (*ranges)[to] = end;
  return true;
}

void SnapshotPast::TakeEnd(const TorchSnapshot& snapshot) {
  for (const SnapshotSegment& segment : snapshot.segments) {
    if (segment.device != device_) continue;
    if (segment.is_expandable) {
      AddRange(segment.address, segment.address + segment.size, &mapped_);
    } else {
      segments_[segment.address] = {segment.size, segment.stream, segment.pool, segment.is_small, segment.frames};
    }
    end_pools_[segment.address] = segment.pool;
    for (const SnapshotBlock& block : segment.blocks) {
      if (block.state == SnapshotBlock::State::kInactive) continue;
      PastBlock& held = blocks_[block.address];
      held = {block.size, block.requested, segment.stream, segment.pool};
      held.is_pending = block.state == SnapshotBlock::State::kPendingFree;
      held.frames = block.frames;
      if (held.is_pending) pending_at_end_.push_back(block.address);
    }
  }
}

// Once for each that there is at a time.
bool SnapshotPast::Spend(size_t objects, uint64_t bytes_each, size_t* spent_for) {
  if (objects <= *spent_for) return true;
  const bool may = memory_->Spend((objects - *spent_for) * bytes_each);
  *spent_for = objects;
  return may;
}

void SnapshotPast::GoBack() {
  size_t spent_for = 0;
  for (size_t i = trace_->size(); i-- > 0;) {
    TakeBack((*trace_)[i], i);
    if (!Spend(segments_.size() + mapped_.size() + blocks_.size(), kBeginningBytes, &spent_for)) return;
  }
}

void SnapshotPast::TakeBack(const SnapshotEntry& entry, size_t i) {
  const SnapshotOwner& owner = (*owners_)[entry.owner];
  const uint64_t end = entry.address + entry.size;
  switch (entry.action) {
    case SnapshotAction::kAlloc: {
      const auto block = blocks_.find(entry.address);
      if (block == blocks_.end()) return Contradict(i, "was allocated, is not there at the end, and nothing freed it");
      sizes_[i] = block->second.size;
      blocks_.erase(block);
      return;
    }
    case SnapshotAction::kFreeCompleted: {
      const auto [block, is_new] = blocks_.try_emplace(entry.address);
      if (!is_new) Contradict(i, "was freed, and is in use without a new allocation");
      block->second = {0, entry.size, owner.stream, owner.pool, true};
      return;
    }
    case SnapshotAction::kFreeRequested: {
      const auto block = blocks_.find(entry.address);
      if (block != blocks_.end()) {
        block->second.is_pending = false;
      } else {  // its completion was left out
        blocks_[entry.address] = {0, entry.size, owner.stream, owner.pool};
      }
      return;
    }
    case SnapshotAction::kSegmentAlloc:
      if (segments_.erase(entry.address) == 0)
        Contradict(i, "the segment is not there at the end, and nothing freed it");
      return;
    case SnapshotAction::kSegmentFree:
      segments_[entry.address] = {entry.size, owner.stream, owner.pool, entry.size == kSmallSegment, {}};
      return;
    case SnapshotAction::kSegmentMap:
      if (!TakeRange(entry.address, end, &mapped_))
        Contradict(i, "was mapped, is not there at the end, and nothing unmapped it");
      return;
    case SnapshotAction::kSegmentUnmap:
      AddRange(entry.address, end, &mapped_);
      return;
    default:
      return;
  }
}

// How much is free from `address` on, up to the next block or the end of the memory around; 0 where there is none.
uint64_t SnapshotPast::FreeAt(uint64_t address, const Segments& segments, const Ranges& mapped, const Blocks& blocks,
                              bool* splits_small, uint64_t* pool) const {
  uint64_t end = 0;
  if (const auto segment = AtOrBelow(segments, address);
      segment != segments.end() && address < segment->first + segment->second.size) {
    end = segment->first + segment->second.size;
    *splits_small = segment->second.is_small;
    *pool = segment->second.pool;
  } else if (const auto range = AtOrBelow(mapped, address); range != mapped.end() && address < range->second) {
    end = range->second;
    *splits_small = true;
    const auto known = AtOrBelow(end_pools_, address);
    *pool = known == end_pools_.end() ? 0 : known->second;
  } else {
    return 0;
  }
  const auto next = blocks.upper_bound(address);
  return (next == blocks.end() ? end : std::min(end, next->first)) - address;
}

// What was freed since then has no size yet. No free range of a large segment is 1 MiB or less: such a rest belongs to
// the block before it.
void SnapshotPast::SizeBlocksOfBeginning() {
  for (auto& [address, block] : blocks_) {
    bool splits_small = false;
    uint64_t pool = block.pool;
    const uint64_t free = FreeAt(address, segments_, mapped_, blocks_, &splits_small, &pool);
    if (block.size == 0)
      block.size = free == 0 ? rules_.Rounded(block.requested) : rules_.Taken(block.requested, free, splits_small);
    if (block.pool == 0) block.pool = pool;
  }
}

void SnapshotPast::Allocate(const SnapshotEntry& entry, size_t i, const Segments& segments, const Ranges& mapped,
                            Blocks* blocks) {
  const SnapshotOwner& owner = (*owners_)[entry.owner];
  bool splits_small = false;
  uint64_t pool = owner.pool;
  blocks->erase(entry.address);
  const uint64_t free = FreeAt(entry.address, segments, mapped, *blocks, &splits_small, &pool);
  const uint64_t derived = free == 0 ? rules_.Rounded(entry.size) : rules_.Taken(entry.size, free, splits_small);
  if (free == 0) Contradict(i, "lies in no segment");
  if (sizes_[i] == 0) sizes_[i] = derived;  // else as the end states it
  if (sizes_[i] != derived) ++odd_sizes_;
  pools_[i] = owner.pool != 0 ? owner.pool : pool;
  PastBlock& block = (*blocks)[entry.address];
  block = {sizes_[i], entry.size, owner.stream, pools_[i]};
  block.frames = entry.frames;
}

void SnapshotPast::Apply(const SnapshotEntry& entry, size_t i, Segments* segments, Ranges* mapped, Blocks* blocks) {
  const SnapshotOwner& owner = (*owners_)[entry.owner];
  const uint64_t end = entry.address + entry.size;
  if (entry.action == SnapshotAction::kAlloc) return Allocate(entry, i, *segments, *mapped, blocks);
  sizes_[i] = entry.size;
  pools_[i] = owner.pool;
  switch (entry.action) {
    case SnapshotAction::kFreeRequested:
    case SnapshotAction::kFreeCompleted: {
      const auto block = blocks->find(entry.address);
      if (block == blocks->end()) return;
      sizes_[i] = block->second.size;
      pools_[i] = block->second.pool;
      const bool completes = entry.action == SnapshotAction::kFreeCompleted;
      kinds_[i] = !block->second.is_pending ? Kind::kFree : Kind::kCompleted;
      // Most often both stand side by side, and the second one says nothing.
      if (completes && kinds_[i] == Kind::kCompleted && i > 0 &&
          (*trace_)[i - 1].action == SnapshotAction::kFreeRequested && (*trace_)[i - 1].address == entry.address)
        kinds_[i] = Kind::kOther;
      if (!completes && kinds_[i] == Kind::kCompleted) kinds_[i] = Kind::kOther;
      if (completes) {
        const size_t freed_by = block->second.freed_by;
        if (kinds_[i] == Kind::kCompleted && freed_by != SIZE_MAX) kinds_[freed_by] = Kind::kFreedLater;
        blocks->erase(block);
      } else {
        if (kinds_[i] == Kind::kFree) block->second.freed_by = i;
        block->second.is_pending = true;
      }
      return;
    }
    case SnapshotAction::kSegmentAlloc:
      (*segments)[entry.address] = {entry.size, owner.stream, owner.pool, entry.size == kSmallSegment, entry.frames};
      if (const auto known = end_pools_.find(entry.address); known != end_pools_.end() && owner.pool == 0)
        (*segments)[entry.address].pool = known->second;
      return;
    case SnapshotAction::kSegmentFree:
      segments->erase(entry.address);
      return;
    case SnapshotAction::kSegmentMap:
      return AddRange(entry.address, end, mapped);
    case SnapshotAction::kSegmentUnmap:
      TakeRange(entry.address, end, mapped);
      return;
    default:
      return;
  }
}

void SnapshotPast::GoForward() {
  Segments segments = segments_;
  Ranges mapped = mapped_;
  Blocks blocks = blocks_;
  size_t spent_for = 0;
  for (size_t i = 0; i < trace_->size(); ++i) {
    if (!Spend(segments.size() + mapped.size() + blocks.size(), kPlaceBytes, &spent_for)) return;
    Apply((*trace_)[i], i, &segments, &mapped, &blocks);
  }
  for (const uint64_t address : pending_at_end_) {
    if (const auto block = blocks.find(address); block != blocks.end() && block->second.freed_by != SIZE_MAX)
      kinds_[block->second.freed_by] = Kind::kFreedLater;
  }
}

}  // namespace gpumem
