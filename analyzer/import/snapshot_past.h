// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SnapshotPast: one device's history told forwards. A snapshot says what there is at its end, and what happened before;
// so what there was before the first event is the end with the events taken back, the last one first:
//
//   end:       segment s, blocks a c        events:  alloc a | free b | alloc c
//   beginning: segment s, block b
//
// Where the events contradict the end (a block is gone that nobody freed), the beginning is what fits the most of them,
// and contradictions() counts: nothing is guessed silently. On the way each block gets its real size (BlockSizes).
//
// Not thread-safe; the snapshot must outlive it. Nothing fails but for want of memory.
//
//   SnapshotPast past(snapshot, device, &memory);
//   for (const PastSegment& segment : past.segments()) ...   // at the beginning
//   for (size_t i = 0; i < trace.size(); ++i) past.size(i);  // of what entry i is about

#ifndef GPUMEM_ANALYZER_IMPORT_SNAPSHOT_PAST_H_
#define GPUMEM_ANALYZER_IMPORT_SNAPSHOT_PAST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/string_view.h"
#include "import/import.h"
#include "import/torch_snapshot.h"

namespace gpumem {

// BlockSizes: how much of a segment a request of PyTorch's caching allocator takes. Its history states what was asked
// for; the block is that, rounded, and the rest of the free range where that is too little to be split off:
//
//   free range  |--------------------------|        kept whole: 2 MiB pools and expandable segments < 512 B left,
//   request     |--------|                                      others <= 1 MiB left, or above max_split_size
//
// Pure. The free range is the caller's to know.
//
//   BlockSizes sizes(snapshot.max_split_size, snapshot.roundup_divisions);
//   sizes.Taken(1000, /*free=*/20 << 20, /*splits_small=*/false);   // 1024
class BlockSizes {
 public:
  // `max_split_size` < 0: none. `divisions`: of requests from 1 MiB << index on (roundup_power2_divisions).
  BlockSizes(int64_t max_split_size, std::vector<uint64_t> divisions)
      : max_split_(max_split_size < 0 ? UINT64_MAX : static_cast<uint64_t>(max_split_size)),
        divisions_(std::move(divisions)) {}

  uint64_t Rounded(uint64_t requested) const;
  // Out of a free range of `free` bytes, at its beginning; never more than that.
  uint64_t Taken(uint64_t requested, uint64_t free, bool splits_small) const;

 private:
  uint64_t max_split_;
  std::vector<uint64_t> divisions_;
};

struct PastSegment {
  uint64_t size = 0, stream = 0, pool = 0;
  bool is_small = false;
  PickleValue frames;
};

struct PastBlock {
  uint64_t size = 0;  // 0 = not known
  uint64_t requested = 0, stream = 0, pool = 0;
  bool is_pending = false;     // freed, but still used by another stream
  size_t freed_by = SIZE_MAX;  // then: the entry
  PickleValue frames{};
};

class SnapshotPast {
 public:
  using Segments = absl::btree_map<uint64_t, PastSegment>;
  using Blocks = absl::btree_map<uint64_t, PastBlock>;
  using Ranges = absl::btree_map<uint64_t, uint64_t>;  // mapped memory: from, to

  // What it keeps it spends of `memory`; where that is over, the past is not whole and must not be used.
  SnapshotPast(const TorchSnapshot& snapshot, int device, ImportMemory* memory);

  // At the beginning, by address.
  const Segments& segments() const { return segments_; }
  const Ranges& mapped() const { return mapped_; }  // of expandable segments
  const Blocks& blocks() const { return blocks_; }

  // At any time.
  bool has_memory() const { return has_memory_; }

  // Of the block that entry `i` allocates or frees; of other entries as they state it.
  uint64_t size(size_t i) const { return sizes_[i]; }
  // The entry frees what was allocated until then: free_requested, or a free_completed that nobody requested.
  bool is_free(size_t i) const { return kinds_[i] == Kind::kFree || kinds_[i] == Kind::kFreedLater; }
  // Its memory can be used again only where is_late_completion says so, or not before the end.
  bool is_freed_later(size_t i) const { return kinds_[i] == Kind::kFreedLater; }
  // The memory of a block that was freed before is free for others only now.
  bool is_late_completion(size_t i) const { return kinds_[i] == Kind::kCompleted; }
  // The entry is an event: it allocates or frees a block that is there.
  bool is_event(size_t i) const { return (*trace_)[i].action == SnapshotAction::kAlloc || kinds_[i] != Kind::kOther; }
  // It says nothing that the free_requested before it does not say.
  bool completes_previous(size_t i) const {
    return i > 0 && kinds_[i] == Kind::kOther && is_free(i - 1) &&
           (*trace_)[i].action == SnapshotAction::kFreeCompleted &&
           (*trace_)[i - 1].action == SnapshotAction::kFreeRequested &&
           (*trace_)[i].address == (*trace_)[i - 1].address;
  }
  // The stream and pool of the segment around, where entries do not say.
  uint64_t pool(size_t i) const { return pools_[i]; }

  uint64_t contradictions() const { return contradictions_; }
  const std::string& first_contradiction() const { return first_contradiction_; }
  // Whose sizes at the end differ from what the rules of splitting give.
  uint64_t odd_sizes() const { return odd_sizes_; }

 private:
  enum class Kind : uint8_t { kOther, kFree, kFreedLater, kCompleted };

  void TakeEnd(const TorchSnapshot& snapshot);
  void GoBack();
  void TakeBack(const SnapshotEntry& entry, size_t i);
  void GoForward();
  void Apply(const SnapshotEntry& entry, size_t i, Segments* segments, Ranges* mapped, Blocks* blocks);
  void Allocate(const SnapshotEntry& entry, size_t i, const Segments& segments, const Ranges& mapped, Blocks* blocks);
  void SizeBlocksOfBeginning();
  bool Spend(size_t objects, uint64_t bytes_each, size_t* spent_for);
  uint64_t FreeAt(uint64_t address, const Segments& segments, const Ranges& mapped, const Blocks& blocks,
                  bool* splits_small, uint64_t* pool) const;
  void Contradict(size_t i, absl::string_view what);
  static void AddRange(uint64_t from, uint64_t to, Ranges* ranges);
  static bool TakeRange(uint64_t from, uint64_t to, Ranges* ranges);

  int device_;
  ImportMemory* memory_;
  const std::vector<SnapshotEntry>* trace_;
  const std::vector<SnapshotOwner>* owners_;
  BlockSizes rules_;
  Segments segments_;
  Ranges mapped_;
  Blocks blocks_;
  std::vector<uint64_t> pending_at_end_;           // addresses
  absl::btree_map<uint64_t, uint64_t> end_pools_;  // segments' pools at the end, for entries that do not say
  std::vector<uint64_t> sizes_, pools_;
  std::vector<Kind> kinds_;
  bool has_memory_ = false;
  uint64_t contradictions_ = 0, odd_sizes_ = 0;
  std::string first_contradiction_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_SNAPSHOT_PAST_H_
