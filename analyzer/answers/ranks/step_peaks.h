// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// StepPeaks: the peak of each step of one rank, in bounded memory, so that ranks can be aligned by step. At most
// kMaxWindows windows of equal width are kept; a window holds the highest of its steps. Its width is a power of two and
// windows begin at multiples of it, so the windows of two ranks fit into each other. Copyable value; not thread-safe.
//
//   StepPeaks peaks;
//   peaks.Add({.step = 7, .allocated = 1 << 30}, /*complete=*/true);
//   peaks.CoarsenTo(other.width());
//   if (const StepPeak* const peak = peaks.InWindow(0)) peak->allocated;

#ifndef GPUMEM_ANALYZER_ANSWERS_RANKS_STEP_PEAKS_H_
#define GPUMEM_ANALYZER_ANSWERS_RANKS_STEP_PEAKS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace gpumem {

struct StepPeak {
  uint64_t step = 0;  // the one in which it was
  uint64_t allocated = 0, total = 0;

  friend auto operator<=>(const StepPeak&, const StepPeak&) = default;
};

class StepPeaks {
 public:
  static constexpr size_t kMaxWindows = 512;

  // `of_total`: windows keep the step with the highest total, not the highest allocated bytes.
  explicit StepPeaks(bool of_total = false) : of_total_(of_total) {}

  // Steps in any order. One that is not complete counts only in last_begun().
  void Add(const StepPeak& peak, bool complete);
  // A power of two; nothing happens where windows are as wide already.
  void CoarsenTo(uint64_t width);

  // Takes over the steps of `later` beyond `known`, each `before` numbers on. Where its windows are wider than one
  // step, a window counts as what its highest step is.
  void MergeLater(const StepPeaks& later, uint64_t before, uint64_t known);

  // What width() and its neighbours were, to make the same again.
  struct Totals {
    uint64_t width = 1, complete = 0, last_begun = 0, last_ended = 0;
  };
  // False, and nothing changed, where no windows can be so.
  bool Restore(const Totals& totals, const std::vector<StepPeak>& peaks);

  uint64_t width() const { return width_; }
  uint64_t complete() const { return complete_; }                           // steps
  uint64_t last_begun() const { return last_begun_; }                       // number; 0 = none
  uint64_t last_ended() const { return last_ended_; }                       // number; 0 = none
  const std::map<uint64_t, StepPeak>& windows() const { return windows_; }  // by step / width()
  const StepPeak* InWindow(uint64_t window) const;                          // nullptr where no step of it is known

 private:
  uint64_t Of(const StepPeak& peak) const { return of_total_ ? peak.total : peak.allocated; }
  void Merge(uint64_t window, const StepPeak& peak);

  bool of_total_ = false;
  uint64_t width_ = 1, complete_ = 0, last_begun_ = 0, last_ended_ = 0;
  std::map<uint64_t, StepPeak> windows_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_RANKS_STEP_PEAKS_H_
