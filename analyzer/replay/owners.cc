// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/owners.h"

#include <algorithm>
#include <tuple>

#include "replay/state/checkpoints.h"
#include "replay/state/replay.h"
#include "trace/reader.h"

namespace gpumem {

absl::string_view OwnerRootName(OwnerRoot root) {
  switch (root) {
    case OwnerRoot::kGlobal:
      return "global";
    case OwnerRoot::kClass:
      return "class";
    case OwnerRoot::kFunction:
      return "function";
    case OwnerRoot::kRunning:
      return "variable";
    case OwnerRoot::kCycle:
      return "cycle";
    case OwnerRoot::kNative:
      return "native";
    case OwnerRoot::kNone:
      break;
  }
  return "";
}

OwnerTally::OwnerTally(const LiveState* state, const ObjectTable& objects, uint64_t end_ns) : state_(state) {
  for (const auto& [id, snapshot] : objects.owner_snapshots()) {
    if (snapshot.time_ns != 0 && snapshot.time_ns <= end_ns) snapshot_ = &snapshot;
  }
}

void OwnerTally::SavedBy(const TorchBlock& block, uint64_t node, uint32_t thread) {
  if (snapshot_ == nullptr || is_taken_ || node == 0) return;
  Saved& saved = saved_[block.address];
  if (saved.time_ns != block.time_ns) saved = {block.time_ns, {}};
  if (saved.nodes.size() < kMaxNodes) saved.nodes.emplace_back(node, thread);
}

void OwnerTally::Count(uint64_t address, uint32_t owner) {
  const uint32_t place = state_->FindBlock(address);
  if (place == AddressIndex::kNone || !counted_.insert(address).second) return;
  const TorchBlock& block = state_->blocks()[place];
  by_owner_[{block.slot, block.stack}][owner].Add(block.size);
}

// A thread numbers its nodes for itself, and an object of Python does not say of which thread it is: numbers that two
// threads gave are nobody's.
void OwnerTally::CountGraphs() {
  absl::flat_hash_map<uint64_t, uint32_t> threads;
  constexpr uint32_t kSeveral = UINT32_MAX;
  for (const auto& [address, saved] : saved_) {
    for (const auto& [node, thread] : saved.nodes) {
      const auto [known, is_new] = threads.try_emplace(node, thread);
      if (!is_new && known->second != thread) known->second = kSeveral;
    }
  }
  absl::flat_hash_map<uint64_t, uint32_t> owner_of;  // node
  for (const auto& [id, owner] : snapshot_->owners) {
    for (const uint64_t node : owner.nodes) owner_of.try_emplace(node, id);
  }
  std::vector<std::pair<uint64_t, uint32_t>> found;  // address and owner, in one order each time
  for (const auto& [address, saved] : saved_) {
    const uint32_t place = state_->FindBlock(address);
    if (place == AddressIndex::kNone || state_->blocks()[place].time_ns != saved.time_ns) continue;
    for (const auto& [node, thread] : saved.nodes) {
      const auto owner = owner_of.find(node);
      if (owner == owner_of.end() || threads.at(node) == kSeveral) continue;
      found.emplace_back(address, owner->second);
      break;
    }
  }
  std::sort(found.begin(), found.end());
  for (const auto& [address, owner] : found) Count(address, owner);
}

// Of tensors that share their memory one may be in a list and another one in C++ alone: what has a name comes first.
void OwnerTally::Take() {
  is_taken_ = true;
  const auto count_of = [this](OwnerRoot from, OwnerRoot to) {
    for (OwnerRoot root = from; root <= to; root = static_cast<OwnerRoot>(static_cast<int>(root) + 1)) {
      for (const auto& [id, owner] : snapshot_->owners) {
        if (owner.root != root) continue;
        for (const uint64_t address : owner.addresses) Count(address, id);
      }
    }
  };
  count_of(OwnerRoot::kGlobal, OwnerRoot::kCycle);
  CountGraphs();
  count_of(OwnerRoot::kNative, OwnerRoot::kNative);
  saved_ = {};
  counted_.clear();
  state_->ForEachPlace([&](Held held, uint32_t place) {
    if (held != Held::kBlock) return;
    const TorchBlock& block = state_->blocks()[place];
    alive_[{block.slot, block.stack}].Add(block.size);
  });
}

template <typename IsWanted>
SeenOwners OwnerTally::Sum(IsWanted is_wanted) const {
  SeenOwners found;
  if (!is_taken_) return found;
  found.cause = snapshot_->cause;
  found.left_out = snapshot_->left_out;
  found.collector = snapshot_->collector;
  std::map<uint32_t, Amount> sums;
  for (const auto& [place, alive] : alive_) {
    if (!is_wanted(place)) continue;
    found.bytes += alive.bytes;
    found.blocks += alive.blocks;
    const auto owned = by_owner_.find(place);
    if (owned == by_owner_.end()) continue;
    for (const auto& [id, sum] : owned->second) {
      sums[id].bytes += sum.bytes;
      sums[id].blocks += sum.blocks;
    }
  }
  uint64_t owned_bytes = 0, owned_blocks = 0;
  for (const auto& [id, sum] : sums) {
    const OwnerInfo& info = snapshot_->owners.at(id);
    found.owners.push_back(
        {info.root, info.file, info.name, info.path, info.container, info.items, sum.bytes, sum.blocks});
    owned_bytes += sum.bytes;
    owned_blocks += sum.blocks;
  }
  std::sort(found.owners.begin(), found.owners.end(), [](const SeenOwner& a, const SeenOwner& b) {
    return std::tie(b.bytes, a.path, a.name) < std::tie(a.bytes, b.path, b.name);
  });
  found.bytes_without = found.bytes - std::min(found.bytes, owned_bytes);
  found.blocks_without = found.blocks - std::min(found.blocks, owned_blocks);
  return found;
}

SeenOwners OwnerTally::Of(const std::vector<uint64_t>& stacks, uint32_t slot) const {
  const absl::flat_hash_set<uint64_t> wanted(stacks.begin(), stacks.end());
  return Sum([&](const Place& place) { return place.first == slot && wanted.contains(place.second); });
}

SeenOwners OwnerTally::OfAll() const {
  return Sum([](const Place&) { return true; });
}

namespace {

struct TallyMoments : ReplayVisitor {
  Replay* replay;
  std::vector<OwnerTally> tallies;  // by time
  uint64_t clock_ns = 0;
  size_t taken = 0;  // the first ones

  bool Take(const EventBatch& batch, size_t i, const EventBatch* following) {
    clock_ns = std::max(clock_ns, batch.time_ns(i));
    for (; taken < tallies.size() && clock_ns >= tallies[taken].time_ns(); ++taken) tallies[taken].Finish();
    if (taken == tallies.size()) return false;
    if (batch.kind(i) != trace::SAVED) {
      replay->state().Apply(batch, i, following);
      return true;
    }
    if (const uint32_t place = replay->state().FindBlock(batch.address(i)); place != AddressIndex::kNone) {
      for (size_t each = taken; each < tallies.size(); ++each)
        tallies[each].SavedBy(replay->state().blocks()[place], batch.handle(i), batch.thread(i));
    }
    return true;
  }
};

}  // namespace

std::vector<OwnersMoment> OwnersAtMoments(TraceReader* reader, const Checkpoints& checkpoints,
                                          const ObjectTable& objects, uint64_t to_ns) {
  std::map<uint64_t, const OwnerSnapshotInfo*> by_time;
  for (const auto& [id, snapshot] : objects.owner_snapshots())
    if (snapshot.time_ns != 0 && snapshot.time_ns <= to_ns) by_time.emplace(snapshot.time_ns, &snapshot);
  std::vector<OwnersMoment> moments;
  const Checkpoint* const start = checkpoints.Before(0);
  if (by_time.empty() || start == nullptr) return moments;
  Replay replay(reader, *start);
  TallyMoments visitor;
  visitor.replay = &replay;
  for (const auto& [time_ns, snapshot] : by_time) visitor.tallies.emplace_back(&replay.state(), snapshot);
  replay.Run(&visitor);
  for (OwnerTally& tally : visitor.tallies) {
    tally.Finish();  // behind the last event
    moments.push_back({tally.time_ns(), tally.OfAll()});
  }
  return moments;
}

}  // namespace gpumem
