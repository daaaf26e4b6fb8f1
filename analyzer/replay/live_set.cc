// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/live_set.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace gpumem {
namespace {

using Key = std::tuple<uint64_t, uint8_t, uint8_t, uint32_t, uint32_t>;  // stack, layer, memory, thread, communicator

class Groups {
 public:
  // `apart`: threads and communicators are told apart.
  explicit Groups(bool apart = false) : apart_(apart) {}

  void Add(const Key& key, uint64_t bytes, uint64_t time_ns, uint32_t api) {
    const auto [it, is_new] = groups_.try_emplace(key);
    Group& group = it->second;
    group.use.bytes += bytes;
    ++group.use.count;
    group.use.oldest_ns = is_new ? time_ns : std::min(group.use.oldest_ns, time_ns);
    group.use.newest_ns = std::max(group.use.newest_ns, time_ns);
    if (is_new) group.api = api;
    if (group.api != api) group.api = 0;
    bytes_ += bytes;
    ++count_;
  }

  void AddBlocks(const LiveState& state, uint32_t slot) {
    state.blocks().ForEach([&](const TorchBlock& block) {
      if (block.slot == slot)
        Add({block.stack, trace::TORCH, trace::DEVICE, 0, 0}, block.size, block.time_ns, block.api);
    });
  }

  void AddCuda(const LiveState& state, uint32_t slot, bool segments, bool others) {
    const CudaMemory& cuda = state.cuda();
    cuda.allocations().ForEach([&](const CudaAllocation& allocation) {
      if (allocation.slot != slot || !(allocation.torch ? segments : others && cuda.InOther(allocation))) return;
      Add(KeyOf(allocation), allocation.size, allocation.time_ns, allocation.api);
    });
    cuda.physicals().ForEach([&](const PhysicalHandle& physical) {
      if (physical.slot != slot || !physical.counted) return;
      if (!(physical.torch ? segments : others && cuda.InOther(physical))) return;
      Add(KeyOf(physical), physical.size, physical.time_ns, physical.api);
    });
  }

  std::vector<StackUse> Sorted(const StackTable& names) {
    std::vector<StackUse> uses;
    uses.reserve(groups_.size());
    for (auto& [key, group] : groups_) {
      StackUse& use = group.use;
      std::tie(use.stack_id, use.layer, use.memory, use.thread, use.communicator) = key;
      if (group.api != 0) use.api = names.string(group.api);
      uses.push_back(std::move(use));
    }
    SortUses(&uses);
    return uses;
  }

  static void SortUses(std::vector<StackUse>* uses) {
    std::sort(uses->begin(), uses->end(), [](const StackUse& a, const StackUse& b) {
      return std::make_tuple(b.bytes, a.stack_id, a.layer, a.memory, a.thread, a.communicator) <
             std::make_tuple(a.bytes, b.stack_id, b.layer, b.memory, b.thread, b.communicator);
    });
  }

  uint64_t bytes() const { return bytes_; }
  uint64_t count() const { return count_; }

 private:
  struct Group {
    StackUse use;
    uint32_t api = 0;
  };
  template <typename Memory>
  Key KeyOf(const Memory& memory) const {
    return {memory.stack, memory.layer, memory.memory, apart_ ? memory.thread : 0, apart_ ? memory.communicator : 0};
  }

  bool apart_;
  absl::flat_hash_map<Key, Group> groups_;
  uint64_t bytes_ = 0;
  uint64_t count_ = 0;
};

}  // namespace

LiveSet CollectLiveSet(const LiveState& state, uint32_t slot, Measure measure, uint64_t time_ns, uint64_t event_index,
                       const StackTable& names) {
  Groups groups;
  if (measure == Measure::kAllocated) {
    groups.AddBlocks(state, slot);
  } else {
    groups.AddCuda(state, slot, measure != Measure::kOther, measure != Measure::kReserved);
  }
  if (slot < state.slots()) {
    const DeviceAccount& device = state.accounts().devices[slot];
    const int64_t lost = measure == Measure::kAllocated                                ? device.lost_allocated
                         : measure == Measure::kReserved || measure == Measure::kTotal ? device.lost_reserved
                                                                                       : 0;
    // Whatever it was that a gap in the file hides: alive, and of no known origin.
    if (lost > 0) groups.Add({0, trace::TORCH, trace::DEVICE, 0, 0}, static_cast<uint64_t>(lost), time_ns, 0);
  }
  LiveSet set;
  set.device = DeviceOfSlot(slot);
  set.measure = measure;
  set.time_ns = time_ns;
  set.event_index = event_index;
  set.bytes = groups.bytes();
  if (slot < state.slots()) set.values = state.values(slot);
  set.block_count = groups.count();
  set.stacks = groups.Sorted(names);
  return set;
}

std::vector<StackUse> CollectOther(const LiveState& state, uint32_t slot, const StackTable& names) {
  Groups groups(/*apart=*/true);
  groups.AddCuda(state, slot, /*segments=*/false, /*others=*/true);
  return groups.Sorted(names);
}

void AddNotRecorded(uint64_t stated, LiveSet* set) {
  if (stated <= set->bytes) return;
  const auto is_unknown = [](const StackUse& use) { return use.stack_id == 0 && use.layer == trace::TORCH; };
  auto unknown = std::find_if(set->stacks.begin(), set->stacks.end(), is_unknown);
  if (unknown == set->stacks.end()) {
    StackUse use;
    use.layer = trace::TORCH;
    use.memory = trace::DEVICE;
    use.oldest_ns = use.newest_ns = set->time_ns;
    unknown = set->stacks.insert(unknown, use);
  }
  unknown->bytes += stated - set->bytes;  // of nobody knows how many blocks
  set->bytes = stated;
  Groups::SortUses(&set->stacks);
}

std::vector<StackUse> CollectUse(const LiveState& state, uint32_t slot, const StackTable& names) {
  Groups groups;
  groups.AddBlocks(state, slot);
  groups.AddCuda(state, slot, false, true);
  return groups.Sorted(names);
}

std::vector<StackUse> Growth(const std::vector<StackUse>& before, const std::vector<StackUse>& after) {
  std::map<Key, const StackUse*> old;
  for (const StackUse& use : before) old[{use.stack_id, use.layer, use.memory, 0, 0}] = &use;
  std::vector<StackUse> grown;
  for (const StackUse& use : after) {
    const auto it = old.find({use.stack_id, use.layer, use.memory, 0, 0});
    const uint64_t bytes = it == old.end() ? 0 : it->second->bytes;
    const uint64_t count = it == old.end() ? 0 : it->second->count;
    if (use.bytes <= bytes) continue;
    grown.push_back(use);
    grown.back().bytes -= bytes;
    grown.back().count -= std::min(use.count, count);
  }
  Groups::SortUses(&grown);
  return grown;
}

}  // namespace gpumem
