// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// AnnotationRanges: a snapshot's annotations as ranges and steps of a trace, one after the other. A START opens a
// range of the whole process, since no thread is named; the END of the same name and device closes the one opened last.
// "ProfilerStep#3" of torch.profiler is a step too. Not thread-safe; tree and list must outlive it.
//
//   while (ranges.has_next() && ranges.next_ns() <= now) GPUMEM_RETURN_IF_ERROR(ranges.Write(begin_ns, &writer));

#ifndef GPUMEM_ANALYZER_IMPORT_ANNOTATION_RANGES_H_
#define GPUMEM_ANALYZER_IMPORT_ANNOTATION_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "import/torch_snapshot.h"
#include "trace/write/trace_writer.h"

namespace gpumem {

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

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_ANNOTATION_RANGES_H_
