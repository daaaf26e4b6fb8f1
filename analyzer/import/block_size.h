// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
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

#ifndef GPUMEM_ANALYZER_IMPORT_BLOCK_SIZE_H_
#define GPUMEM_ANALYZER_IMPORT_BLOCK_SIZE_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace gpumem {

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

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_BLOCK_SIZE_H_
