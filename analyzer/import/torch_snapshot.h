// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// TorchSnapshot: what torch.cuda.memory._snapshot() of PyTorch 1.13 to 2.15 says, as plain values: segments and their
// blocks as they were when it was written, and what happened before, device by device, in order. 1.13 wrote the
// segments alone, as a list.
//
// Stacks stay where they are in the tree (PickleValue; the same list of frames is the same value), so the tree must
// outlive it. Not thread-safe while it is read; a plain value afterwards.
//
//   GPUMEM_ASSIGN_OR_RETURN(const TorchSnapshot snapshot, ReadTorchSnapshot(tree, file_bytes, &memory));
//   for (const SnapshotEntry& entry : snapshot.traces[0]) Use(entry);

#ifndef GPUMEM_ANALYZER_IMPORT_TORCH_SNAPSHOT_H_
#define GPUMEM_ANALYZER_IMPORT_TORCH_SNAPSHOT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "import/import.h"
#include "import/pickle_tree.h"

namespace gpumem {

enum class SnapshotAction : uint8_t {
  kOther,
  kAlloc,
  kFreeRequested,
  kFreeCompleted,
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,
  kSegmentUnmap,
  kSnapshot,
  kOom,
  kAnnotate,
};

// `kOther`: of a version that is newer than this program; only what is kept whole (snapshot_rest.h) says more.
struct SnapshotEntry {
  SnapshotAction action = SnapshotAction::kOther;
  uint32_t owner = 0;    // index of TorchSnapshot::owners
  uint64_t address = 0;  // of kOom: bytes that the device had free
  uint64_t size = 0;     // of blocks: as it was asked for
  int64_t time_us = 0;   // since 1970; 0 = not recorded
  PickleValue frames;
};

// Of which stream and pool an entry was: few of all entries differ.
struct SnapshotOwner {
  uint64_t stream = 0, pool = 0;
};

struct SnapshotBlock {
  enum class State : uint8_t { kInactive, kAllocated, kPendingFree };
  State state = State::kInactive;
  uint64_t address = 0, size = 0, requested = 0;
  PickleValue frames;
};

// As PyTorch writes it.
absl::string_view SnapshotStateName(SnapshotBlock::State state);

// 0 = not recorded.
uint64_t SnapshotTimeNs(const SnapshotEntry& entry);

struct SnapshotSegment {
  int device = 0;
  uint64_t address = 0, size = 0, stream = 0, pool = 0;
  bool is_small = false, is_expandable = false;
  PickleValue frames;
  std::vector<SnapshotBlock> blocks;
};

// User annotations: ranges that torch.profiler.record_function opened.
struct SnapshotAnnotation {
  bool is_start = false;
  int device = 0;
  int64_t time_us = 0;
  PickleValue name;
};

struct TorchSnapshot {
  std::vector<SnapshotSegment> segments;
  std::vector<std::vector<SnapshotEntry>> traces;  // by device
  std::vector<SnapshotOwner> owners;               // at least one
  std::vector<SnapshotAnnotation> annotations;
  std::map<std::string, std::string> settings;  // allocator_settings, printed as Python does
  std::string conf;                             // PYTORCH_CUDA_ALLOC_CONF
  int64_t max_split_size = -1;                  // -1 = none
  std::vector<uint64_t> roundup_divisions;      // of sizes from 1 MiB << index on
  uint64_t entries = 0;
  bool has_traces = false, has_times = false, has_stacks = false;
  uint64_t unknown_actions = 0;
  // Of pinned host memory: each segment has one block; entries are of no device.
  std::vector<SnapshotSegment> host_segments;
  std::vector<SnapshotEntry> host_trace;
  // GPUs have one moment, and pinned memory a time: record_cuda=False.
  bool has_pinned_history_alone() const { return entries == 0 && !host_trace.empty(); }
};

// A tree may refer to one list so often that reading it would never end: no more entries than a file of that many bytes
// can write out. DataLoss where it is not a snapshot or has impossible parts.
absl::StatusOr<TorchSnapshot> ReadTorchSnapshot(const PickleTree& tree, uint64_t file_bytes, ImportMemory* memory);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_TORCH_SNAPSHOT_H_
