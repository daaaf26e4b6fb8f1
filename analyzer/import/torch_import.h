// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ImportTorchSnapshot: PyTorch's snapshot as a trace. What becomes what:
//
//   alloc            torch ALLOC, size = the block's (derived, snapshot_past.h), requested_size as stated
//   free_requested   torch FREE: allocated memory falls here, as in PyTorch's own statistics
//   free_completed   nothing, or torch FREE_COMPLETED where it comes later
//   segment_alloc/free    runtime ALLOC / FREE
//   segment_map/unmap     driver PHYSICAL_CREATE + MAP / UNMAP + PHYSICAL_RELEASE, in a range reserved at the beginning
//   oom              torch ALLOC_FAILED and OOM_DEVICE with what the device had free
//   pinned host memory       runtime ALLOC / FREE of HOST_PINNED, by who has it (snapshot_pinned.h)
//   snapshot, annotations, metadata, compile context    marks, ranges, tags
//   what was there before    a live snapshot at the beginning
//
// Each device's events bear the number of the device + 1 as their thread: the snapshot names no threads, and the
// order on a device is all that it states. Errors are the sink's, and DataLoss where the snapshot is none, or too
// large.
//
//   GPUMEM_ASSIGN_OR_RETURN(const ImportResult result, ImportTorchSnapshot(tree, bytes, "run.pickle", &memory, sink));

#ifndef GPUMEM_ANALYZER_IMPORT_TORCH_IMPORT_H_
#define GPUMEM_ANALYZER_IMPORT_TORCH_IMPORT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpumem/trace.pb.h"
#include "import/import.h"
#include "import/pickle_tree.h"
#include "import/snapshot_past.h"
#include "import/torch_snapshot.h"
#include "trace/write/trace_writer.h"

namespace gpumem {

// AnnotationRanges: a snapshot's annotations as ranges and steps of a trace, one after the other. A START opens a
// range of the whole process, since no thread is named; the END of the same name and device closes the one opened last.
// "ProfilerStep#3" of torch.profiler is a step too. Not thread-safe; tree and list must outlive it.
//
//   while (ranges.has_next() && ranges.next_ns() <= now) GPUMEM_RETURN_IF_ERROR(ranges.Write(begin_ns, &writer));
class AnnotationRanges {
 public:
  AnnotationRanges(const PickleTree& tree, const std::vector<SnapshotAnnotation>& annotations)
      : tree_(tree), annotations_(annotations) {}

  bool has_next() const { return next_ < annotations_.size(); }
  uint64_t next_ns() const;
  // Writes the next one, at its time but not before `begin_ns` or the one before.
  absl::Status Write(uint64_t begin_ns, TraceWriter* writer);

 private:
  const PickleTree& tree_;
  const std::vector<SnapshotAnnotation>& annotations_;
  size_t next_ = 0;
  uint64_t opened_ = 0, last_ns_ = 0;
  absl::flat_hash_map<std::pair<int, uint64_t>, std::vector<uint64_t>> open_;  // by device and name
};

// What the trace made from a snapshot says of itself: its header, and the sentences on what the snapshot lacks and what
// was derived. Pure.
//
//   header = SnapshotHeader(snapshot, "run.pickle", begin_ns, result);

std::vector<std::string> SnapshotNotes(const TorchSnapshot& snapshot, const std::vector<SnapshotPast>& pasts);

trace::Header SnapshotHeader(const TorchSnapshot& snapshot, const std::string& path, uint64_t begin_ns,
                             const ImportResult& result);

absl::StatusOr<ImportResult> ImportTorchSnapshot(const PickleTree& tree, uint64_t file_bytes, const std::string& path,
                                                 ImportMemory* memory, TraceWriter::Sink sink);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_TORCH_IMPORT_H_
