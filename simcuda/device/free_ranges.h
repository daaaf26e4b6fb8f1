// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A set of free address ranges with best-fit allocation. Among ranges of the same size the lowest address wins, so the
// same sequence of calls always yields the same addresses: two identical runs can be compared address by address.
//
//   free: [0x1000,+0x3000) [0x9000,+0x1000)      Take(0x1000) -> 0x9000, the smallest range that fits
//
// Invariant: ranges neither overlap nor touch (neighbours are merged); by_size_ holds exactly the ranges of
// by_address_. Thread-safety: none; the owner locks.
#ifndef SIMCUDA_DEVICE_FREE_RANGES_H_
#define SIMCUDA_DEVICE_FREE_RANGES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace simcuda {

struct Range {
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t end() const { return address + size; }
  friend bool operator==(const Range&, const Range&) = default;
};

class FreeRanges {
 public:
  // Takes `size` bytes at a multiple of `alignment` (a power of two), or nothing where no range fits.
  std::optional<uint64_t> Take(uint64_t size, uint64_t alignment);

  // Takes exactly [address, address + size); false where a part of it is not free.
  bool TakeAt(uint64_t address, uint64_t size);

  // Gives a range back and returns the merged free range that it became part of.
  Range Give(uint64_t address, uint64_t size);

  uint64_t total_bytes() const { return total_bytes_; }
  const std::map<uint64_t, uint64_t>& by_address() const { return by_address_; }

 private:
  void Insert(uint64_t address, uint64_t size);
  void Erase(std::map<uint64_t, uint64_t>::iterator range);
  void Carve(std::map<uint64_t, uint64_t>::iterator range, uint64_t address, uint64_t size);

  std::map<uint64_t, uint64_t> by_address_;          // address -> size
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // (size, address)
  uint64_t total_bytes_ = 0;
};

// Hands out pieces of granules: small plain allocations share granules through one, a memory pool is another.
//
//   granules   |#####.....|##########|..........|      # allocated   . free, still reserved
//   reserved   3 granules; ReleaseUnused(0) gives the last one back
//
// Invariant: reserved_bytes() = allocated bytes + free bytes, a multiple of the granule.
// Thread-safety: none; the owner locks. Ownership: borrows its GranuleSource, which must outlive it.

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

#endif  // SIMCUDA_DEVICE_FREE_RANGES_H_
