// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Hands out pieces of granules: small plain allocations share granules through one, a memory pool is another.
//
//   granules   |#####.....|##########|..........|      # allocated   . free, still reserved
//   reserved   3 granules; ReleaseUnused(0) gives the last one back
//
// Invariant: reserved_bytes() = allocated bytes + free bytes, a multiple of the granule.
// Thread-safety: none; the owner locks. Ownership: borrows its GranuleSource, which must outlive it.
#ifndef SIMCUDA_DEVICE_SUB_ALLOCATOR_H_
#define SIMCUDA_DEVICE_SUB_ALLOCATOR_H_

#include <cstdint>
#include <optional>

#include "simcuda/device/free_ranges.h"

namespace simcuda {

// Where granules come from and go to: a device's memory, with its capacity.
class GranuleSource {
 public:
  virtual ~GranuleSource() = default;
  virtual std::optional<uint64_t> TakeGranules(uint64_t size) = 0;
  virtual void GiveGranules(uint64_t address, uint64_t size) = 0;
};

class SubAllocator {
 public:
  explicit SubAllocator(GranuleSource* source) : source_(source) {}

  // `size` is rounded up to kSmallAlignment. Nothing where the source is exhausted.
  std::optional<uint64_t> Allocate(uint64_t size);
  // Returns the free range that the piece became part of.
  Range Free(uint64_t address, uint64_t size);

  // Gives the whole granules inside a free range back.
  void ReleaseWithin(const Range& free_range);

  // Gives unused granules back, highest addresses first, while more than `keep_bytes` are reserved.
  void ReleaseUnused(uint64_t keep_bytes);

  uint64_t reserved_bytes() const { return reserved_bytes_; }
  uint64_t used_bytes() const { return reserved_bytes_ - free_.total_bytes(); }

 private:
  GranuleSource* const source_;
  FreeRanges free_;
  uint64_t reserved_bytes_ = 0;
};

}  // namespace simcuda

#endif  // SIMCUDA_DEVICE_SUB_ALLOCATOR_H_
