// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/allocator/segment_log.h"

#include <algorithm>
#include <utility>

#include "replay/state/checkpoints.h"
#include "replay/state/lifetime_observer.h"
#include "replay/state/replay.h"
#include "trace/stack_table.h"

namespace gpumem::plan {
namespace {

uint64_t KeyOf(Held kind, uint32_t place) { return static_cast<uint64_t>(kind) << 32 | place; }

bool IsSegment(const LiveState& state, uint64_t key) {
  const auto place = static_cast<uint32_t>(key);
  return static_cast<Held>(key >> 32) == Held::kAllocation ? state.cuda().allocations()[place].torch
                                                           : state.cuda().physicals()[place].torch;
}

}  // namespace

void SegmentLog::OnAlloc(const LiveState& state, Held kind, uint32_t place) {
  if (kind == Held::kBlock) {
    ++blocks_;
    return;
  }
  Entry entry;
  entry.blocks_before = blocks_;
  entry.is_page = kind == Held::kPhysical;
  if (entry.is_page) {
    const PhysicalHandle& physical = state.cuda().physicals()[place];
    entry.slot = physical.slot, entry.change = static_cast<int64_t>(physical.size);
  } else {
    const CudaAllocation& allocation = state.cuda().allocations()[place];
    entry.slot = allocation.slot, entry.change = static_cast<int64_t>(allocation.size);
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
  Entry ended = begun;
  ended.change = -begun.change;
  ended.blocks_before = blocks_;
  open_.erase(found);
  entries_.push_back(ended);
}

void SegmentLog::Begin() {
  std::vector<Entry> there;
  for (auto& [key, index] : open_) {
    there.push_back(entries_[index]);
    index = there.size() - 1;
  }
  entries_ = std::move(there);
  beginning_ = entries_.size();
  blocks_ = 0;
}

SegmentChanges SegmentLog::Finish(const LiveState& state) {
  for (const auto& [key, index] : open_) entries_[index].is_segment = IsSegment(state, key);
  SegmentChanges changes;
  std::map<int, int64_t> mapped;
  for (size_t i = 0; i < beginning_; ++i) {
    const Entry& entry = entries_[i];
    if (!entry.is_segment) continue;
    if (entry.is_page)
      mapped[DeviceOfSlot(entry.slot)] += entry.change;
    else
      changes[DeviceOfSlot(entry.slot)].push_back(entry.change);
  }
  for (auto& [device, sizes] : changes) std::sort(sizes.begin(), sizes.end());
  for (const auto& [device, size] : mapped) changes[device].push_back(size);
  std::map<int, const Entry*> last;
  for (size_t i = beginning_; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (!entry.is_segment) continue;
    std::vector<int64_t>& list = changes[DeviceOfSlot(entry.slot)];
    const Entry*& before = last[DeviceOfSlot(entry.slot)];
    const bool is_same = before != nullptr && before->is_page && entry.is_page &&
                         before->blocks_before == entry.blocks_before && (before->change > 0) == (entry.change > 0);
    if (is_same)
      list.back() += entry.change;
    else
      list.push_back(entry.change);
    before = &entry;
  }
  *this = SegmentLog();
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

namespace {

class SegmentReader final : public ReplayVisitor, public LifetimeObserver {
 public:
  SegmentReader(const OpenTrace& trace, const Checkpoint& start)
      : replay_(trace.reader, start), names_(trace.names), origin_ns_(trace.analysis->origin_ns) {}

  ReplayedSegments Run() {
    replay_.Observe(this);
    replay_.Run(this);
    found_.changes = log_.Finish(replay_.state());
    return found_;
  }

  bool Take(const EventBatch& batch, size_t i, const EventBatch* following) {
    if (batch.kind(i) == trace::MARK && names_ != nullptr) {
      const std::string& text = names_->string(batch.text(i));
      if (text == kHistoryEnds) return false;
      if (text == kHistoryBegins) {
        log_.Begin();
        found_.begin_ns = batch.time_ns(i) - origin_ns_;
      }
    }
    replay_.state().Apply(batch, i, following);
    return true;
  }

  void OnAlloc(Held kind, uint32_t place) override { log_.OnAlloc(replay_.state(), kind, place); }
  void OnFree(Held kind, uint32_t place) override { log_.OnFree(replay_.state(), kind, place); }

 private:
  Replay replay_;
  const StackTable* const names_;
  const uint64_t origin_ns_;
  SegmentLog log_;
  ReplayedSegments found_;
};

}  // namespace

ReplayedSegments ReadSegments(const OpenTrace& trace) {
  const Checkpoint* const start = trace.checkpoints->Before(0);
  return start == nullptr ? ReplayedSegments() : SegmentReader(trace, *start).Run();
}

}  // namespace gpumem::plan
