// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Whose a mark of a trace is: of which thread, and whether it is a library's own range.

#ifndef GPUMEM_ANALYZER_TRACE_MARK_RANGES_H_
#define GPUMEM_ANALYZER_TRACE_MARK_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/string_view.h"
#include "trace/event_batch.h"
#include "trace/stack_table.h"

namespace gpumem {

// The kernel's id of the thread that mark `i` is of: the one that it names (in the column `stream`), else the one that
// left it. Of a thread that the trace does not define, its number there.
inline uint32_t ThreadOfMark(const EventBatch& batch, size_t i, const StackTable& names) {
  if (batch.stream(i) != 0) return static_cast<uint32_t>(batch.stream(i));
  const ThreadInfo* const thread = names.thread(batch.thread(i));
  return thread != nullptr ? thread->tid : batch.thread(i);
}

// NVTX ranges that a library of the CUDA Toolkit opens around its own work, such as CUB's around a sort: no stage of
// the program. The recorder puts the name of an NVTX domain before a range's text ("CCCL:cub::DeviceRadixSort"), which
// tells them. Not thread-safe.
//
//   if (library_ranges_.Take(batch, i, tid, names)) return;

// The text of a range in a domain of such a library.
bool IsLibraryRange(absl::string_view text);

class LibraryRanges {
 public:
  // Every mark, in order; `tid`: the kernel's id of the thread that it is of. True: it opens or closes such a range.
  bool Take(const EventBatch& batch, size_t i, uint32_t tid, const StackTable& names);

 private:
  std::map<uint32_t, std::vector<bool>> pushed_;  // by thread, outermost first: whether it is a library's
  std::set<uint64_t> started_;                    // of the process, by number
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_MARK_RANGES_H_
