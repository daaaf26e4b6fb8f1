// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/merge_summaries.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace gpumem {
namespace {

constexpr size_t kMaxPoints = 240;  // of the timeline

// How much later steps are to be moved on; nothing where no step is in both.
std::optional<uint64_t> StepsBefore(const std::vector<StepEnd>& earlier, const std::vector<StepEnd>& later) {
  std::map<uint64_t, uint64_t> ends;  // time -> number
  for (const StepEnd& end : earlier) ends[end.monotonic_ns] = end.step;
  for (const StepEnd& end : later) {
    const auto found = ends.find(end.monotonic_ns);
    if (found != ends.end() && found->second >= end.step) return found->second - end.step;
  }
  return std::nullopt;
}

// What both know is taken from the earlier one, which saw its beginning.
void MergeSteps(const RankSummary& earlier, RankSummary* later) {
  const StepPeaks seen = std::exchange(later->steps, earlier.steps);
  std::vector<StepEnd> ends = std::exchange(later->step_ends, earlier.step_ends);
  const bool has_steps = earlier.steps.complete() > 0;
  const std::optional<uint64_t> before = has_steps ? StepsBefore(earlier.step_ends, ends) : 0;
  later->steps_missed = earlier.steps_missed || (has_steps && !ends.empty() && !before);
  if (later->steps_missed) return;
  const uint64_t known = earlier.steps.last_ended();
  later->steps.MergeLater(seen, before.value_or(0), known);
  for (StepEnd& end : ends) {
    end.step += before.value_or(0);
    if (end.step > known) later->step_ends.push_back(end);
  }
  if (later->oom_realtime_ns != 0) later->oom_step += before.value_or(0);
}

void TakePeak(const RankSummary& from, RankSummary* to) {
  to->categories = from.categories;
  to->communicator_bytes = from.communicator_bytes;
  to->knows_peak_groups = from.knows_peak_groups;
  to->peak_groups = from.peak_groups;
  to->other_peak_bytes = from.other_peak_bytes;
}

// Of each span of time the highest, so that it does not grow with the run.
std::vector<TimedBytes> MergeTimelines(const std::vector<TimedBytes>& earlier, const std::vector<TimedBytes>& later) {
  std::vector<TimedBytes> points = earlier;
  for (const TimedBytes& point : later) {
    if (points.empty() || point.realtime_ns > points.back().realtime_ns) points.push_back(point);
  }
  if (points.size() <= kMaxPoints) return points;
  std::vector<TimedBytes> merged;
  const size_t each = (points.size() + kMaxPoints - 1) / kMaxPoints;
  for (size_t i = 0; i < points.size(); ++i) {
    if (i % each == 0) {
      merged.push_back(points[i]);
    } else {
      merged.back().bytes = std::max(merged.back().bytes, points[i].bytes);
    }
  }
  return merged;
}

}  // namespace

bool IsSameRecording(const RankSummary& a, const RankSummary& b) {
  return a.hostname == b.hostname && a.pid == b.pid && a.start_ticks == b.start_ticks && a.start_ticks != 0 &&
         a.rank == b.rank && a.job == b.job;
}

RankSummary MergeSummaries(const RankSummary& earlier, RankSummary later) {
  // Before anything was allocated on a GPU nothing says by which measure.
  if (earlier.device >= 0 && later.device >= 0 && earlier.device != later.device) return later;
  later.start_realtime_ns = earlier.start_realtime_ns;
  if (later.events_before > 0) later.events = 0;  // how many there were in all is not known: the other one counts marks
  if (earlier.Peak() > later.Peak()) TakePeak(earlier, &later);
  later.peak_allocated = std::max(earlier.peak_allocated, later.peak_allocated);
  later.peak_reserved = std::max(earlier.peak_reserved, later.peak_reserved);
  later.peak_total = std::max(earlier.peak_total, later.peak_total);
  for (const auto& [device, bytes] : earlier.other_devices) {
    uint64_t& most = later.other_devices[device];
    most = std::max(most, bytes);
  }
  MergeSteps(earlier, &later);
  later.timeline = MergeTimelines(earlier.timeline, later.timeline);
  return later;
}

}  // namespace gpumem
