// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/leaks/owners.h"

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_set.h"

namespace gpumem {

OwnerTally::OwnerTally(const LiveState* state, const ObjectTable& objects, uint64_t end_ns) : state_(state) {
  for (const auto& [id, snapshot] : objects.owner_snapshots()) {
    if (snapshot.time_ns != 0 && snapshot.time_ns <= end_ns) snapshot_ = &snapshot;
  }
}

void OwnerTally::Take() {
  is_taken_ = true;
  absl::flat_hash_set<uint64_t> counted;  // tensors share their storages
  for (const auto& [id, owner] : snapshot_->owners) {
    for (const uint64_t address : owner.addresses) {
      const uint32_t place = state_->FindBlock(address);
      if (place == AddressIndex::kNone || !counted.insert(address).second) continue;
      const TorchBlock& block = state_->blocks()[place];
      by_owner_[{block.slot, block.stack}][id].Add(block.size);
    }
  }
  state_->ForEachPlace([&](Held held, uint32_t place) {
    if (held != Held::kBlock) return;
    const TorchBlock& block = state_->blocks()[place];
    alive_[{block.slot, block.stack}].Add(block.size);
  });
}

SeenOwners OwnerTally::Of(const std::vector<uint64_t>& stacks, uint32_t slot) const {
  SeenOwners found;
  if (!is_taken_) return found;
  found.cause = snapshot_->cause;
  found.left_out = snapshot_->left_out;
  found.collector = snapshot_->collector;
  std::map<uint32_t, Sum> sums;
  for (const uint64_t stack : stacks) {
    if (const auto alive = alive_.find({slot, stack}); alive != alive_.end()) {
      found.bytes += alive->second.bytes;
      found.blocks += alive->second.blocks;
    }
    const auto owned = by_owner_.find({slot, stack});
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

}  // namespace gpumem
