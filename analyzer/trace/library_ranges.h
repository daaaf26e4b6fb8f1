// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NVTX ranges that a library of the CUDA Toolkit opens around its own work, such as CUB's around a sort: no stage of
// the program. The recorder puts the name of an NVTX domain before a range's text ("CCCL:cub::DeviceRadixSort"), which
// tells them. Not thread-safe.
//
//   if (library_ranges_.Take(batch, i, tid, names)) return;

#ifndef GPUMEM_ANALYZER_TRACE_LIBRARY_RANGES_H_
#define GPUMEM_ANALYZER_TRACE_LIBRARY_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpumem {

class EventBatch;
class StackTable;

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

#endif  // GPUMEM_ANALYZER_TRACE_LIBRARY_RANGES_H_
