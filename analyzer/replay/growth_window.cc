// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/growth_window.h"

namespace gpumem {
namespace {

// Growth is measured between the two moments when the program held least inside these parts of the run (in percent of
// its events: a program that loads for a minute and trains for ten seconds is looked at while it trains), so that a
// step's own rise and fall does not look like growth. The first part comes after warm-up, the second ends before the
// program tears down.
constexpr uint64_t kGrowthFrom[] = {20, 40};
constexpr uint64_t kGrowthBetween[] = {45, 70};
constexpr uint64_t kGrowthTo[] = {75, 95};
// Growth is steady where each half of the time has at least this part of it.
constexpr uint64_t kLeastPartOfHalf = 5;

bool RisesInBothHalves(uint64_t first, uint64_t between, uint64_t last) {
  if (first >= between || between >= last) return false;
  const uint64_t least = (last - first) / kLeastPartOfHalf;
  return between - first >= least && last - between >= least;
}

// The bucket with the lowest point among those whose lowest point lies in a part of the events.
const Timeline::Bucket* LowestIn(const Timeline& timeline, uint64_t events, const uint64_t (&percent)[2]) {
  const Timeline::Bucket* lowest = nullptr;
  for (const Timeline::Bucket& bucket : timeline.buckets()) {
    if (bucket.low_event_index < events * percent[0] / 100 || bucket.low_event_index > events * percent[1] / 100)
      continue;
    if (lowest == nullptr || bucket.low < lowest->low) lowest = &bucket;
  }
  return lowest;
}

}  // namespace

GrowthWindow NarrowGrowthWindow(const Timeline& timeline, const GrowthWindow& whole) {
  if (whole.to_event == UINT64_MAX) return whole;
  const Timeline::Bucket* const early = LowestIn(timeline, whole.to_event, kGrowthFrom);
  const Timeline::Bucket* const between = LowestIn(timeline, whole.to_event, kGrowthBetween);
  const Timeline::Bucket* const late = LowestIn(timeline, whole.to_event, kGrowthTo);
  if (early == nullptr || late == nullptr) return whole;
  const bool is_steady = between != nullptr && RisesInBothHalves(early->low, between->low, late->low);
  return {early->low_event_index, early->low_time_ns, late->low_event_index, late->low_time_ns, is_steady};
}

}  // namespace gpumem
