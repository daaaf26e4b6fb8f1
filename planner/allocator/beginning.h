// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Beginning: what PyTorch's allocator held before the first event of a trace: its segments, and the blocks in them. And
// the requests that bring an empty allocator there, each block at its place: a segment is asked for as a whole, given
// back to the cache, and filled from its front with blocks and, where it was free, with fillers, which go at the end:
//
//   recorded    |  block a  | free |  b  |   free    |
//   requests    whole; free whole; a; filler; b; filler; free fillers
//
//   const std::vector<BeginningRange> beginning = ReadBeginning(path);
//   WriteBeginning(beginning, numbers_of_blocks, &numbers, names, [&](const Request& request) { file.Write(request);
//   });
//
// Not thread-safe. Failure: none; what cannot be read is empty. A hole of up to 1 MiB at the front of a range for large
// blocks cannot be made; whether the replay is exact shows later.

#ifndef GPUMEM_PLANNER_ALLOCATOR_BEGINNING_H_
#define GPUMEM_PLANNER_ALLOCATOR_BEGINNING_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "planner/allocator/request_file.h"
#include "trace/reader.h"

namespace gpumem::plan {

// Numbers: names for things that live, from 0, each used again as soon as its thing is gone. Not thread-safe.
//
//   const uint64_t number = numbers.Take();
//   numbers.Return(number);
class Numbers {
 public:
  uint64_t Take() {
    if (free_.empty()) return next_++;
    const uint64_t number = free_.back();
    free_.pop_back();
    return number;
  }
  void Return(uint64_t number) { free_.push_back(number); }
  // In use at once, at most.
  uint64_t most() const { return next_; }

 private:
  uint64_t next_ = 0;
  std::vector<uint64_t> free_;
};

struct BeginningBlock {
  uint64_t address = 0, size = 0;
};

// A segment, or what is mapped side by side of an expandable one.
struct BeginningRange {
  int device = 0;
  uint64_t address = 0, size = 0;
  uint64_t stream = 0, pool = 0;  // as recorded
  bool is_expandable = false;
  bool is_small = false;               // for blocks of up to 1 MiB
  std::vector<BeginningBlock> blocks;  // by address

  uint64_t end() const { return address + size; }
};

// By address, of all devices. Empty where the trace begins with nothing.
std::vector<BeginningRange> ReadBeginning(const std::string& path);
std::vector<BeginningRange> BeginningOf(const std::vector<LiveSnapshotBatch>& snapshot);

// What a request file calls streams and pools.
struct RequestNames {
  std::function<uint16_t(uint64_t)> stream;
  std::function<uint32_t(uint64_t)> pool;
};

// `blocks`: the number of each block, by address; one that has none is left out. Fillers take numbers and return them.
void WriteBeginning(const std::vector<BeginningRange>& ranges, const absl::flat_hash_map<uint64_t, uint64_t>& blocks,
                    const RequestNames& names, Numbers* numbers, const std::function<void(const Request&)>& write);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_ALLOCATOR_BEGINNING_H_
