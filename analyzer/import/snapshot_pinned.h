// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SnapshotPinned: pinned host memory of a snapshot, as PyTorch 2.14 and later writes it with
// record_pinned_host_memory=True. PyTorch's host allocator does not split: each of its segments is one block, pinned by
// segment_alloc and let go by segment_free. In between a block is a tensor's, from alloc to free_completed, or free in
// the allocator's cache. Here each pinned byte belongs to one of them at any time:
//
//      segment_alloc, alloc   free_completed      alloc          free_completed  segment_free
//      |-------- stack of alloc --|---- the cache ----|-- stack of alloc --|---- the cache ----|
//
// What was pinned before the first entry follows from the segments at the end, backwards, as in snapshot_past.h.
//
// Not thread-safe; snapshot, memory, stacks and writer must outlive it. Errors are the writer's; where memory is over,
// ImportMemory says so, and nothing here is to be used.
//
//   SnapshotPinned pinned(snapshot, &memory);
//   pinned.AddBeginning(begin_ns, &stacks, &writer.definitions(), &rows);
//   GPUMEM_RETURN_IF_ERROR(pinned.Write(i, time_ns, &stacks, &writer));

#ifndef GPUMEM_ANALYZER_IMPORT_SNAPSHOT_PINNED_H_
#define GPUMEM_ANALYZER_IMPORT_SNAPSHOT_PINNED_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "import/import.h"
#include "import/snapshot_events.h"
#include "import/torch_snapshot.h"
#include "trace/write/trace_writer.h"

namespace gpumem {

class SnapshotPinned {
 public:
  SnapshotPinned(const TorchSnapshot& snapshot, ImportMemory* memory);

  // Before the first entry.
  bool had_any() const { return !live_.empty(); }
  // What was pinned then, as the events that made it. Before any Write.
  void AddBeginning(uint64_t time_ns, StackImporter* stacks, DefinitionBuilder* definitions,
                    std::vector<EventRow>* rows) const;
  // Entry `i` of the history, in order.
  absl::Status Write(size_t i, uint64_t time_ns, StackImporter* stacks, TraceWriter* writer);
  // Sentences on what the numbers are made of; none where the snapshot has no pinned memory. Before any Write.
  std::vector<std::string> Notes() const;

 private:
  struct PinnedBlock {
    uint64_t size = 0;
    bool is_cached = false;
    bool is_new = false;  // its segment_alloc was written with the stack of the alloc that follows
    PickleValue frames;   // of whoever has it; empty = not known
  };
  using PinnedBlocks = absl::btree_map<uint64_t, PinnedBlock>;  // by address

  void TakePinnedBack(const SnapshotEntry& entry, size_t i);
  void Deny(size_t i, absl::string_view what);
  EventRow HostRow(trace::EventKind kind, uint64_t address, uint64_t size, uint64_t time_ns) const;
  EventRow PinnedRow(uint64_t address, const PinnedBlock& block, uint64_t time_ns, StackImporter* stacks,
                     DefinitionBuilder* definitions) const;
  absl::Status WriteFreed(uint64_t address, uint64_t size, uint64_t time_ns, TraceWriter* writer);

  const TorchSnapshot& snapshot_;
  PinnedBlocks live_;
  uint64_t at_end_ = 0, cached_at_end_ = 0, denials_ = 0;
  std::string first_denial_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_SNAPSHOT_PINNED_H_
