// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// OwnerTally: the blocks of each stack by who owned them when the recorder last looked (trace.proto's OwnerSnapshot).
// Fed by a replay: what lies at an address is known at the snapshot's own moment alone. Not thread-safe.
//
//   OwnerTally tally(&replay.state(), replay objects, end_ns);
//   tally.Before(time_ns);   // of each event
//   tally.Finish();          // after the last one
//   for (const SeenOwner& owner : tally.Of({stack}, slot).owners) ...

#ifndef GPUMEM_ANALYZER_REPLAY_OWNERS_H_
#define GPUMEM_ANALYZER_REPLAY_OWNERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "replay/state/live_state.h"
#include "trace/object_table.h"

namespace gpumem {

class Checkpoints;
class TraceReader;

// "global", "class", "function", "variable", "cycle", "native"; "".
absl::string_view OwnerRootName(OwnerRoot root);

// What one owner has of some blocks.
struct SeenOwner {
  OwnerRoot root = OwnerRoot::kNone;
  std::string file, name, path, container;  // as in OwnerInfo
  uint64_t items = 0;                       // of the container
  uint64_t bytes = 0, blocks = 0;
};

// Who owned some blocks.
struct SeenOwners {
  OwnersCause cause = OwnersCause::kNone;          // kNone: nobody looked
  std::string left_out;                            // why not all was looked at
  uint32_t collector = 0;                          // Python's: 1 = on, 2 = off, 0 = not known
  uint64_t bytes = 0, blocks = 0;                  // that were alive then
  std::vector<SeenOwner> owners;                   // most bytes first
  uint64_t bytes_without = 0, blocks_without = 0;  // of them: in no tensor that Python has an object for
};

// A look at owners of a whole process, by its time.
struct OwnersMoment {
  uint64_t time_ns = 0;
  SeenOwners seen;
};

class OwnerTally {
 public:
  // Of one snapshot, which must outlive it; null: of none.
  OwnerTally(const LiveState* state, const OwnerSnapshotInfo* snapshot) : state_(state), snapshot_(snapshot) {}
  // `state` and `objects` must outlive it. Snapshots after `end_ns` are left out.
  OwnerTally(const LiveState* state, const ObjectTable& objects, uint64_t end_ns);

  // Before an event of this time takes effect.
  void Before(uint64_t time_ns) {
    if (snapshot_ != nullptr && !is_taken_ && time_ns >= snapshot_->time_ns) Take();
  }
  // Autograd keeps a block for a node.
  void SavedBy(const TorchBlock& block, uint64_t node, uint32_t thread);
  void Finish() {
    if (snapshot_ != nullptr && !is_taken_) Take();
  }

  uint64_t time_ns() const { return snapshot_ == nullptr ? 0 : snapshot_->time_ns; }
  SeenOwners Of(const std::vector<uint64_t>& stacks, uint32_t slot) const;
  // Of all blocks.
  SeenOwners OfAll() const;

 private:
  struct Amount {
    uint64_t bytes = 0, blocks = 0;
    void Add(uint64_t more) { bytes += more, ++blocks; }
  };
  void Take();
  void Count(uint64_t address, uint32_t owner);
  void CountGraphs();
  template <typename IsWanted>
  SeenOwners Sum(IsWanted is_wanted) const;

  const LiveState* state_;
  const OwnerSnapshotInfo* snapshot_ = nullptr;  // the last one
  bool is_taken_ = false;
  // What autograd keeps: of a block the nodes, and when it was allocated, since its address may be another one's later.
  struct Saved {
    uint64_t time_ns = 0;
    std::vector<std::pair<uint64_t, uint32_t>> nodes;  // with their threads
  };
  static constexpr size_t kMaxNodes = 16;       // of a block: a parameter is used by many
  absl::flat_hash_map<uint64_t, Saved> saved_;  // by address
  absl::flat_hash_set<uint64_t> counted_;       // addresses: tensors share their storages
  using Place = std::pair<uint32_t, uint64_t>;  // slot, stack
  std::map<Place, Amount> alive_;
  std::map<Place, std::map<uint32_t, Amount>> by_owner_;  // by OwnerInfo's number
};

// Each look at the process up to `to_ns`, by time, of those that `objects`, all of the trace, has: a replay of its own
// up to the last of them, which none costs where nobody looked. `checkpoints` must have one at or before the first
// event; the reader stands anywhere afterwards.
std::vector<OwnersMoment> OwnersAtMoments(TraceReader* reader, const Checkpoints& checkpoints,
                                          const ObjectTable& objects, uint64_t to_ns);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_OWNERS_H_
