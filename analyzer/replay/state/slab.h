// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Slab<T>: a vector whose places are reused. T has a bool member `live`. Copyable value; not thread-safe.
//
//   Slab<Block> blocks;
//   uint32_t place = blocks.Add(block);  blocks[place].size;  blocks.Remove(place);

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_SLAB_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_SLAB_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpumem {

template <typename T>
class Slab {
 public:
  uint32_t Add(const T& value) {
    uint32_t place;
    if (!free_.empty()) {
      place = free_.back();
      free_.pop_back();
      values_[place] = value;
    } else {
      place = static_cast<uint32_t>(values_.size());
      values_.push_back(value);
    }
    values_[place].live = true;
    return place;
  }

  void Remove(uint32_t place) {
    values_[place].live = false;
    free_.push_back(place);
  }

  T& operator[](uint32_t place) { return values_[place]; }
  const T& operator[](uint32_t place) const { return values_[place]; }
  size_t size() const { return values_.size() - free_.size(); }
  size_t places() const { return values_.size(); }  // used or not: what a copy, or a look at each, costs

  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const T& value : values_) {
      if (value.live) visit(value);
    }
  }

  // Like ForEach, with the place first.
  template <typename Visit>
  void ForEachPlace(Visit visit) const {
    for (uint32_t place = 0; place < values_.size(); ++place) {
      if (values_[place].live) visit(place, values_[place]);
    }
  }

 private:
  std::vector<T> values_;
  std::vector<uint32_t> free_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STATE_SLAB_H_
