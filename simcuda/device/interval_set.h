// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A set of addresses kept as merged intervals: dirty pages, host-visible ranges.
// Thread-safety: none; the owner locks.
// Example: set.Add(10, 5); set.Add(15, 5);  // one interval [10, 20)
#ifndef SIMCUDA_DEVICE_INTERVAL_SET_H_
#define SIMCUDA_DEVICE_INTERVAL_SET_H_

#include <cstdint>
#include <iterator>
#include <map>

namespace simcuda {

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

}  // namespace simcuda

#endif  // SIMCUDA_DEVICE_INTERVAL_SET_H_
