// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// EarlierBlocks: PyTorch's blocks that were alive where events are missing, by address. A block that begins later where
// one of them lies shows that it ended meanwhile, also where the two do not begin at the same address. Copyable value;
// not thread-safe.
//
//   earlier.Add(block.address, block.size, place); ... earlier.Sort();
//   earlier.ForEachIn(address, size, [&](uint64_t address, uint32_t place) { ... });   // which may have ended since

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_EARLIER_BLOCKS_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_EARLIER_BLOCKS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpumem {

class EarlierBlocks {
 public:
  void Clear() { blocks_.clear(); }
  void Add(uint64_t address, uint64_t size, uint32_t place) { blocks_.push_back({address, address + size, place}); }
  void Sort() {
    std::sort(blocks_.begin(), blocks_.end(), [](const Block& a, const Block& b) { return a.address < b.address; });
  }

  // Those that share a byte with [address, address + size). They are taken not to overlap each other.
  template <typename Visit>
  void ForEachIn(uint64_t address, uint64_t size, Visit visit) const {
    auto block = std::partition_point(blocks_.begin(), blocks_.end(), [&](const Block& b) { return b.end <= address; });
    for (; block != blocks_.end() && block->address < address + size; ++block) visit(block->address, block->place);
  }

 private:
  struct Block {
    uint64_t address, end;
    uint32_t place;
  };
  std::vector<Block> blocks_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STATE_EARLIER_BLOCKS_H_
