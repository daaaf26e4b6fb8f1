// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// DeviceSeries: peaks, plateaus and timeline of one device while its events pass by. On the replay's hot path. A value;
// not thread-safe.

#ifndef GPUMEM_ANALYZER_REPLAY_SERIES_H_
#define GPUMEM_ANALYZER_REPLAY_SERIES_H_

#include <cstdint>
#include <vector>

#include "replay/analysis.h"
#include "replay/plateaus.h"
#include "replay/timeline.h"

namespace gpumem {

class DeviceSeries {
 public:
  DeviceSeries(uint64_t start_ns, const AnalyzeOptions& options)
      : timeline_(start_ns, options.timeline_buckets), allocated_(options.plateaus), total_(options.plateaus) {}

  void Observe(uint64_t time_ns, uint64_t event_index, const MeasureValues& values) {
    if (values.allocated > peak_allocated_.bytes) peak_allocated_ = {values.allocated, time_ns, event_index};
    allocated_.Observe(values.allocated, time_ns, event_index);
    // CUDA's own calls are rare beside PyTorch's blocks.
    if (values.reserved != last_reserved_ || values.other != last_other_) ObserveCuda(time_ns, event_index, values);
    timeline_.Observe(time_ns, event_index, values);
  }

  void Finish(uint64_t end_ns, uint64_t events) { timeline_.Finish(end_ns, events); }

  const SeriesPeak& peak_allocated() const { return peak_allocated_; }
  const SeriesPeak& peak_reserved() const { return peak_reserved_; }
  const SeriesPeak& peak_other() const { return peak_other_; }
  const SeriesPeak& peak_total() const { return peak_total_; }
  const Timeline& timeline() const { return timeline_; }
  // Of allocated; of total where PyTorch did nothing.
  std::vector<SeriesPeak> Plateaus() { return peak_allocated_.bytes > 0 ? allocated_.Finish() : total_.Finish(); }

 private:
  void ObserveCuda(uint64_t time_ns, uint64_t event_index, const MeasureValues& values) {
    last_reserved_ = values.reserved;
    last_other_ = values.other;
    if (values.reserved > peak_reserved_.bytes) peak_reserved_ = {values.reserved, time_ns, event_index};
    if (values.other > peak_other_.bytes) peak_other_ = {values.other, time_ns, event_index};
    if (values.total > peak_total_.bytes) peak_total_ = {values.total, time_ns, event_index};
    total_.Observe(values.total, time_ns, event_index);
  }

  uint64_t last_reserved_ = 0, last_other_ = 0;
  SeriesPeak peak_allocated_, peak_reserved_, peak_other_, peak_total_;
  Timeline timeline_;
  PlateauFinder allocated_, total_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_SERIES_H_
