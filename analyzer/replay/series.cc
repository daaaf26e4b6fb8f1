// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/series.h"

#include <algorithm>

namespace gpumem {
namespace {

Timeline::Bucket Merge(const Timeline::Bucket& a, const Timeline::Bucket& b) {
  Timeline::Bucket merged = a;
  merged.max.allocated = std::max(a.max.allocated, b.max.allocated);
  merged.max.reserved = std::max(a.max.reserved, b.max.reserved);
  merged.max.other = std::max(a.max.other, b.max.other);
  merged.max.total = std::max(a.max.total, b.max.total);
  // b carries a's last values on, so an equal maximum of b is a's.
  const bool is_later =
      b.max.total > a.max.total || (b.max.total == a.max.total && a.is_total_flat && b.max.allocated > a.max.allocated);
  if (is_later) merged.max_time_ns = b.max_time_ns;
  merged.is_total_flat = a.is_total_flat && b.is_total_flat;
  if (b.low < a.low) {
    merged.low = b.low;
    merged.low_time_ns = b.low_time_ns;
    merged.low_event_index = b.low_event_index;
  }
  return merged;
}

}  // namespace

void Timeline::Halve() {
  std::vector<Bucket> merged;
  merged.reserve(most_);
  for (size_t i = 0; i < buckets_.size(); i += 2) {
    merged.push_back(i + 1 < buckets_.size() ? Merge(buckets_[i], buckets_[i + 1]) : buckets_[i]);
  }
  buckets_ = std::move(merged);
  width_ns_ *= 2;
  bucket_end_ns_ = BucketStart(buckets_.size());
}

// Appends a bucket that starts with what the one before it ended with.
void Timeline::Open(uint64_t event_index) {
  Bucket bucket;
  bucket.max = last_;
  bucket.max_time_ns = BucketStart(buckets_.size());
  bucket.low = last_.allocated + last_.other;
  bucket.low_time_ns = bucket.max_time_ns;
  bucket.low_event_index = event_index == 0 ? 0 : event_index - 1;
  buckets_.push_back(bucket);
  bucket_end_ns_ = BucketStart(buckets_.size());
}

void Timeline::Advance(uint64_t time_ns, uint64_t event_index) {
  // A jump over many buckets halves first, so no more than `most_` are ever opened for one event.
  while (time_ns - start_ns_ >= width_ns_ * most_ && width_ns_ < (UINT64_MAX / 4) / most_) {
    if (buckets_.empty()) {
      width_ns_ *= 2;
    } else {
      Halve();
    }
  }
  while (buckets_.empty() || time_ns >= bucket_end_ns_) {
    if (buckets_.size() == most_) break;  // a time beyond all reason stays in the last bucket
    Open(event_index);
  }
  if (time_ns >= bucket_end_ns_) bucket_end_ns_ = UINT64_MAX;
}

void Timeline::Finish(uint64_t end_ns, uint64_t event_index) {
  if (end_ns < start_ns_) end_ns = start_ns_;
  Observe(end_ns, event_index, last_);
}

std::vector<TimelinePoint> Timeline::Points() const {
  std::vector<TimelinePoint> points;
  points.reserve(buckets_.size());
  for (const Bucket& bucket : buckets_) points.push_back({bucket.max_time_ns, bucket.max});
  return points;
}

}  // namespace gpumem
