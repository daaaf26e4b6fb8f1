// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Timeline: maxima (and the lowest moment) of a device's series in buckets of equal length, for a trace whose length is
// not known before its end: when the buckets run out, neighbours merge and the length doubles, which loses no maximum.
// Not thread-safe; a value.
//
//   Timeline timeline(origin_ns, 240);
//   timeline.Observe(time_ns, event_index, values);   // after every event of the device
//   timeline.Finish(end_ns);

#ifndef GPUMEM_ANALYZER_REPLAY_TIMELINE_H_
#define GPUMEM_ANALYZER_REPLAY_TIMELINE_H_

#include <cstdint>
#include <vector>

#include "replay/analysis.h"

namespace gpumem {

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

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_TIMELINE_H_
