// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// EndPools: what PyTorch's allocator itself said of its segments when its snapshot was taken (trace.proto,
// AllocatorState): whose they are, and which blocks were freed and still in use by another stream. Empty of traces that
// are no import of a snapshot. A plain value; not thread-safe while Take is called.
//
//   EndPools pools(path);
//   if (const EndPools::Segment* segment = pools.At(device, address)) Print(EndPools::NameOf(segment->pool));

#ifndef GPUMEM_ANALYZER_QUERY_END_POOLS_H_
#define GPUMEM_ANALYZER_QUERY_END_POOLS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/strings/string_view.h"

namespace gpumem {

class EndPools {
 public:
  struct Segment {
    uint64_t size = 0, stream = 0, pool = 0;
    bool is_small = false;
  };
  struct Pending {
    uint64_t size = 0, requested = 0, stack = 0;
  };
  using Place = std::pair<int, uint64_t>;  // device, address

  explicit EndPools(absl::string_view path);

  // Around an address; null where there is none.
  const Segment* At(int device, uint64_t address) const;
  const absl::btree_map<Place, Pending>& pending() const { return pending_; }

  // "(0, 7)": as PyTorch names it; "(0, 0)" is the common one.
  static std::string NameOf(uint64_t pool);

 private:
  absl::btree_map<Place, Segment> segments_;
  absl::btree_map<Place, Pending> pending_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_END_POOLS_H_
