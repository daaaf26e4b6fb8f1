// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// DeviceSeries: peaks, plateaus and timeline of one device while its events pass by. On the replay's hot path. Where
// events are missing, a peak is what the device is known to have held, never more: what may be overstated counts only
// where nothing else is known, and PyTorch's own totals raise a peak that lacks something. A value; not thread-safe.
//
//   ObserveState(state, slot, time_ns, event_index, &series);          // after each event
//   series.TakeStated(time_ns, event_index, totals, state.IsSure(slot));   // what PyTorch said of itself

#ifndef GPUMEM_ANALYZER_REPLAY_SERIES_H_
#define GPUMEM_ANALYZER_REPLAY_SERIES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "replay/analysis.h"
#include "replay/state/live_state.h"

namespace gpumem {

// PlateauFinder: the highest separate peaks of a series, in one pass. Two peaks are separate where the series falls
// between them by at least 5 % of the earlier one and rises again by at least 5 % of the later one; so a training's
// steps are separate peaks, and the many near-maxima inside one step are one. Keeps the `most` highest, the earlier of
// equals. A value; not thread-safe.
//
//            peak A            peak B
//             /\/\              /\          the two tops of A fall by less than 5 %
//        ____/    \____________/  \___
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

// Timeline: maxima (and the lowest moment) of a device's series in buckets of equal length, for a trace whose length is
// not known before its end: when the buckets run out, neighbours merge and the length doubles, which loses no maximum.
// Not thread-safe; a value.
//
//   Timeline timeline(origin_ns, 240);
//   timeline.Observe(time_ns, event_index, values);   // after every event of the device
//   timeline.Finish(end_ns);
class Timeline {
 public:
  struct Bucket {
    MeasureValues max;
    uint64_t max_time_ns = 0;  // of the highest total, or of the highest allocated where total is flat
    bool is_total_flat = true;
    uint64_t low = UINT64_MAX;  // lowest allocated + other: what the program holds
    uint64_t low_time_ns = 0;
    uint64_t low_event_index = 0;
  };

  Timeline(uint64_t start_ns, uint32_t most_buckets)
      : start_ns_(start_ns), most_(most_buckets < 2 ? 2 : most_buckets & ~1u) {}

  void Observe(uint64_t time_ns, uint64_t event_index, const MeasureValues& values) {
    if (time_ns >= bucket_end_ns_) Advance(time_ns, event_index);
    Update(time_ns, event_index, values, &buckets_.back());
    last_ = values;
  }

  // Fills up to the end of the trace.
  void Finish(uint64_t end_ns, uint64_t event_index);

  std::vector<TimelinePoint> Points() const;
  const std::vector<Bucket>& buckets() const { return buckets_; }
  uint64_t BucketStart(size_t bucket) const { return start_ns_ + bucket * width_ns_; }

 private:
  static void Update(uint64_t time_ns, uint64_t event_index, const MeasureValues& values, Bucket* bucket) {
    if (values.total > bucket->max.total) {
      bucket->max.total = values.total;
      bucket->max_time_ns = time_ns;
      bucket->is_total_flat = false;
    }
    if (values.allocated > bucket->max.allocated) {
      bucket->max.allocated = values.allocated;
      if (bucket->is_total_flat) bucket->max_time_ns = time_ns;
    }
    if (values.reserved > bucket->max.reserved) bucket->max.reserved = values.reserved;
    if (values.other > bucket->max.other) bucket->max.other = values.other;
    if (const uint64_t use = values.allocated + values.other; use < bucket->low) {
      bucket->low = use;
      bucket->low_time_ns = time_ns;
      bucket->low_event_index = event_index;
    }
  }

  void Advance(uint64_t time_ns, uint64_t event_index);
  void Open(uint64_t event_index);
  void Halve();

  uint64_t start_ns_;
  uint32_t most_;
  uint64_t width_ns_ = 1024;    // doubled as needed
  uint64_t bucket_end_ns_ = 0;  // of the last bucket
  MeasureValues last_;          // holds from the last observation on
  std::vector<Bucket> buckets_;
};

class DeviceSeries {
 public:
  DeviceSeries(uint64_t start_ns, const AnalyzeOptions& options)
      : timeline_(start_ns, options.timeline_buckets), allocated_(options.plateaus), total_(options.plateaus) {}

  void Observe(uint64_t time_ns, uint64_t event_index, const MeasureValues& values) {
    ObservePeaks(time_ns, event_index, values);
    timeline_.Observe(time_ns, event_index, values);
  }

  // `least` is what is sure of the values.
  void ObserveLeast(uint64_t time_ns, uint64_t event_index, const MeasureValues& values, const MeasureValues& least) {
    ObservePeaks(time_ns, event_index, least);
    timeline_.Observe(time_ns, event_index, values);
  }

  // The device may have held less.
  void ObserveUnsure(uint64_t time_ns, uint64_t event_index, const MeasureValues& values, bool uses_torch) {
    Raise(time_ns, event_index, values, &unsure_);
    if (!uses_torch) timeline_.Observe(time_ns, event_index, values);
  }

  // PyTorch's allocator said of itself that it holds so much. Where what the replay counts is not sure, this is all
  // that the timeline has.
  void TakeStated(uint64_t time_ns, uint64_t event_index, uint64_t allocated, uint64_t reserved, bool is_sure) {
    const MeasureValues said{allocated, reserved, 0, std::max(allocated, reserved)};
    is_raised_ |= Raise(time_ns, event_index, said, &sure_);
    if (!is_sure) timeline_.Observe(time_ns, event_index, said);
  }

  void Finish(uint64_t end_ns, uint64_t events) { timeline_.Finish(end_ns, events); }

  const SeriesPeak& peak_allocated() const { return Shown().allocated; }
  const SeriesPeak& peak_reserved() const { return Shown().reserved; }
  const SeriesPeak& peak_other() const { return Shown().other; }
  const SeriesPeak& peak_total() const { return Shown().total; }
  // The device may have held less than these peaks; and a total of PyTorch's is above all that was counted.
  bool is_about() const { return &Shown() == &unsure_; }
  bool is_raised() const { return is_raised_; }
  const Timeline& timeline() const { return timeline_; }
  // Of allocated; of total where PyTorch did nothing.
  std::vector<SeriesPeak> Plateaus() { return peak_allocated().bytes > 0 ? allocated_.Finish() : total_.Finish(); }

 private:
  struct Peaks {
    SeriesPeak allocated, reserved, other, total;
  };

  void ObservePeaks(uint64_t time_ns, uint64_t event_index, const MeasureValues& values) {
    if (values.allocated > sure_.allocated.bytes) sure_.allocated = {values.allocated, time_ns, event_index};
    allocated_.Observe(values.allocated, time_ns, event_index);
    // CUDA's own calls are rare beside PyTorch's blocks.
    if (values.reserved != last_reserved_ || values.other != last_other_) ObserveCuda(time_ns, event_index, values);
  }

  void ObserveCuda(uint64_t time_ns, uint64_t event_index, const MeasureValues& values) {
    last_reserved_ = values.reserved;
    last_other_ = values.other;
    Raise(time_ns, event_index, values, &sure_);
    total_.Observe(values.total, time_ns, event_index);
  }

  // Whether one of them was raised.
  static bool Raise(uint64_t time_ns, uint64_t event_index, const MeasureValues& values, Peaks* peaks) {
    bool raised = false;
    const auto raise = [&](uint64_t bytes, SeriesPeak* peak) {
      if (bytes <= peak->bytes) return;
      *peak = {bytes, time_ns, event_index};
      raised = true;
    };
    raise(values.allocated, &peaks->allocated);
    raise(values.reserved, &peaks->reserved);
    raise(values.other, &peaks->other);
    raise(values.total, &peaks->total);
    return raised;
  }

  // PyTorch's part is known where its totals are, if not at each moment; of other memory nobody says a total.
  const Peaks& Shown() const {
    const bool uses_torch = sure_.allocated.bytes + sure_.reserved.bytes > 0;
    return !uses_torch && unsure_.total.bytes + unsure_.allocated.bytes > sure_.total.bytes ? unsure_ : sure_;
  }

  uint64_t last_reserved_ = 0, last_other_ = 0;
  Peaks sure_, unsure_;
  bool is_raised_ = false;
  Timeline timeline_;
  PlateauFinder allocated_, total_;
};

// What the device of this slot holds.
inline void ObserveState(const LiveState& state, uint32_t slot, uint64_t time_ns, uint64_t event_index,
                         DeviceSeries* series) {
  const MeasureValues& values = state.values(slot);
  if (!state.has_gap()) [[likely]] {
    series->Observe(time_ns, event_index, values);
    return;
  }
  const bool uses_torch = state.accounts().devices[slot].torch_events != 0;
  if (!state.IsSure(slot) || (!uses_torch && state.may_lack_frees())) {
    series->ObserveUnsure(time_ns, event_index, values, uses_torch);
  } else {
    series->ObserveLeast(time_ns, event_index, values, state.LeastValues(slot));
  }
}

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_SERIES_H_
