// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PlateauFinder: the highest separate peaks of a series, in one pass. Two peaks are separate where the series falls
// between them by at least 5 % of the earlier one and rises again by at least 5 % of the later one; so a training's
// steps are separate peaks, and the many near-maxima inside one step are one. Keeps the `most` highest, the earlier of
// equals. A value; not thread-safe.
//
//            peak A            peak B
//             /\/\              /\          the two tops of A fall by less than 5 %
//        ____/    \____________/  \___

#ifndef GPUMEM_ANALYZER_REPLAY_PLATEAUS_H_
#define GPUMEM_ANALYZER_REPLAY_PLATEAUS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "replay/analysis.h"

namespace gpumem {

class PlateauFinder {
 public:
  explicit PlateauFinder(size_t most) : most_(most) {}

  void Observe(uint64_t value, uint64_t time_ns, uint64_t event_index) {
    if (is_rising_) {
      if (value > top_.bytes) {
        top_ = {value, time_ns, event_index};
      } else if (value < top_.bytes - top_.bytes / kSeparation) {
        Keep();
        is_rising_ = false;
        bottom_ = value;
      }
    } else if (value < bottom_) {
      bottom_ = value;
    } else if (value - bottom_ >= value / kSeparation && value > bottom_) {
      is_rising_ = true;
      top_ = {value, time_ns, event_index};
    }
  }

  // Highest first.
  std::vector<SeriesPeak> Finish() {
    if (is_rising_) Keep();
    is_rising_ = false;
    return kept_;
  }

 private:
  static constexpr uint64_t kSeparation = 20;  // one part in 20 is 5 %

  void Keep() {
    if (top_.bytes == 0) return;
    const auto before = [](const SeriesPeak& a, const SeriesPeak& b) { return a.bytes > b.bytes; };
    kept_.insert(std::upper_bound(kept_.begin(), kept_.end(), top_, before), top_);
    if (kept_.size() > most_) kept_.pop_back();
  }

  size_t most_;
  bool is_rising_ = true;
  uint64_t bottom_ = 0;
  SeriesPeak top_;
  std::vector<SeriesPeak> kept_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_PLATEAUS_H_
