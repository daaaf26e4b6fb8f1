// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the simulated device memory contains. Device addresses themselves are inaccessible; the bytes lie in a shadow
// mapping at the same offset. Only short copies are kept: a training job's tensors must not cost host memory, and no
// kernel computes anything anyway. Longer writes make their range read as zeros.
//
//   device  base + x   PROT_NONE (or accessible: managed memory, host-visible mappings; then the bytes lie here)
//   shadow  shadow + x the bytes
//
// A range is known where its bytes are those of a GPU: copied from the host, filled, copied from a known range, or
// computed by whoever says so (Learn). It is drawn where they follow from random numbers: a GPU has others that are
// drawn in the same way. A kernel that computes nothing leaves its output as it was, so whoever launches one must Zero
// what it writes.
//
// Only dirty pages, those that were ever written, are tracked, zeroed and read; everything else reads as zeros.
// Thread-safety: none; the owner locks. Ownership: the machine owns one Contents over its AddressSpace.
#ifndef SIMCUDA_DEVICE_CONTENTS_H_
#define SIMCUDA_DEVICE_CONTENTS_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace simcuda {

// A set of addresses kept as merged intervals: dirty pages, host-visible ranges.
// Thread-safety: none; the owner locks.
// Example: set.Add(10, 5); set.Add(15, 5);  // one interval [10, 20)

class IntervalSet {
 public:
  void Add(uint64_t begin, uint64_t size) {
    uint64_t end = begin + size;
    auto at = intervals_.upper_bound(begin);
    if (at != intervals_.begin() && std::prev(at)->second >= begin) --at;
    while (at != intervals_.end() && at->first <= end) {
      if (at->first < begin) begin = at->first;
      if (at->second > end) end = at->second;
      at = intervals_.erase(at);
    }
    intervals_.emplace_hint(at, begin, end);
  }

  // Removes [begin, begin + size) and calls visit(begin, end) for each part of it that was in the set.
  template <typename Visit>
  void Remove(uint64_t begin, uint64_t size, Visit visit) {
    const uint64_t end = begin + size;
    auto at = intervals_.upper_bound(begin);
    if (at != intervals_.begin() && std::prev(at)->second > begin) --at;
    while (at != intervals_.end() && at->first < end) {
      const uint64_t from = at->first, to = at->second;
      at = intervals_.erase(at);
      if (from < begin) intervals_.emplace(from, begin);
      if (to > end) at = intervals_.emplace(end, to).first;
      visit(from > begin ? from : begin, to < end ? to : end);
    }
  }

  bool Intersects(uint64_t begin, uint64_t size) const {
    auto at = intervals_.lower_bound(begin + size);
    return at != intervals_.begin() && std::prev(at)->second > begin;
  }

  // Whether all of it is in the set: neighbours are one interval.
  bool Covers(uint64_t begin, uint64_t size) const {
    const auto after = intervals_.upper_bound(begin);
    return size == 0 || (after != intervals_.begin() && std::prev(after)->second >= begin + size);
  }

  bool empty() const { return intervals_.empty(); }
  const std::map<uint64_t, uint64_t>& intervals() const { return intervals_; }

 private:
  std::map<uint64_t, uint64_t> intervals_;  // begin -> end
};

class AddressSpace;

// How much of a GPU's bytes a range has; values of simcuda_bytes and its like.
enum class Truth : int { kUnknown = 0, kDrawn = 1, kKnown = 2 };

class Contents {
 public:
  // Copies longer than `keep_bytes` drop their contents.
  Contents(const AddressSpace* addresses, uint64_t keep_bytes);
  ~Contents();
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;

  bool ok() const { return shadow_ != nullptr; }

  // Source and target may each be a device or a host address.
  void Copy(uint64_t target, uint64_t source, uint64_t size);

  // Whether a device range may hold anything but zeros.
  bool HasBytes(uint64_t address, uint64_t size) const;

  // Writes `count` elements of `width` bytes (1, 2 or 4) with the low bytes of `value`.
  void Fill(uint64_t target, uint32_t value, unsigned width, uint64_t count);

  // Makes a range read as zeros that are not known; costs next to nothing where nothing was written.
  void Zero(uint64_t address, uint64_t size);

  // Of the least known byte of a device range.
  Truth TruthOf(uint64_t address, uint64_t size) const;

  // Where the bytes at a device address lie, for whoever reads them; null where the host must not be given them.
  char* Seen(uint64_t address) const { return IsShadowed(address) ? Bytes(address) : nullptr; }

  // The same for writing; from now on the range is as true as that. However long it is: who asks pays for it.
  char* Learn(uint64_t address, uint64_t size, Truth truth);

  // The range keeps its bytes, and is not known any more.
  void Doubt(uint64_t address, uint64_t size) { SetTruth(address, size, Truth::kUnknown); }

  // Lets the host read and write a granule-aligned device range, or takes that right away and drops the contents.
  bool SetHostVisible(uint64_t address, uint64_t size, bool visible);

 private:
  bool IsShadowed(uint64_t address) const;
  char* Bytes(uint64_t address) const;
  void MarkDirty(uint64_t address, uint64_t size);
  void Clear(uint64_t address, uint64_t size);
  void SetTruth(uint64_t address, uint64_t size, Truth truth);

  const AddressSpace* const addresses_;
  const uint64_t keep_bytes_;
  char* shadow_ = nullptr;
  IntervalSet dirty_;         // page-aligned device addresses with bytes in the shadow
  IntervalSet known_;         // device addresses whose bytes are those of a GPU
  IntervalSet drawn_;         // and these, or ones that are drawn in the same way
  IntervalSet host_visible_;  // device addresses whose bytes lie at the address itself
};

}  // namespace simcuda

#endif  // SIMCUDA_DEVICE_CONTENTS_H_
