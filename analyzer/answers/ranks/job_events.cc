// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/job_events.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/format.h"

namespace gpumem {
namespace {

constexpr uint64_t kFarBehind = 2;  // steps: one more or less is where the end came

RankValue HeldAt(const RankSummary& rank, uint64_t realtime_ns) {
  RankValue held{rank.rank, 0};
  for (const TimedBytes& point : rank.timeline) {
    if (point.realtime_ns > realtime_ns && held.bytes != 0) break;
    held.bytes = point.bytes;
  }
  return held;
}

}  // namespace

std::optional<FirstOom> FindFirstOom(const Job& job) {
  const RankSummary* first = nullptr;
  for (const RankSummary& rank : job.ranks) {
    if (rank.oom_realtime_ns == 0) continue;
    if (first == nullptr || rank.oom_realtime_ns < first->oom_realtime_ns) first = &rank;
  }
  if (first == nullptr) return std::nullopt;
  FirstOom oom{first->rank, first->oom_realtime_ns, first->oom_step, first->refused_bytes, first->allocated_at_oom, {}};
  for (const RankSummary& rank : job.ranks) {
    if (rank.rank != first->rank && rank.device >= 0 && !rank.timeline.empty())
      oom.others.push_back(HeldAt(rank, oom.realtime_ns));
  }
  SortValues(&oom.others);
  return oom;
}

std::vector<Straggler> FindStragglers(const Job& job) {
  std::vector<Straggler> stragglers;
  std::vector<uint64_t> ended;
  for (const RankSummary& rank : job.ranks) ended.push_back(rank.steps.last_ended());
  if (ended.size() < 2) return stragglers;
  std::sort(ended.begin(), ended.end());
  const uint64_t median = ended[ended.size() / 2];
  const auto completed =
      static_cast<size_t>(std::count_if(job.ranks.begin(), job.ranks.end(),
                                        [](const RankSummary& rank) { return rank.ending == RunEnding::kCompleted; }));
  for (const RankSummary& rank : job.ranks) {
    if (rank.steps_missed) continue;  // how far it came is not known
    const uint64_t last = rank.steps.last_ended();
    const uint64_t behind = last < median ? median - last : 0;
    const bool was_killed = rank.ending == RunEnding::kKilled && completed * 2 > ended.size();
    if (behind >= kFarBehind || was_killed)
      stragglers.push_back({rank.rank, last, behind, rank.ending, rank.last_realtime_ns});
  }
  std::stable_sort(stragglers.begin(), stragglers.end(),
                   [](const Straggler& a, const Straggler& b) { return a.behind > b.behind; });
  return stragglers;
}

std::vector<StrayMemory> FindStrayMemory(const Job& job) {
  std::set<std::pair<std::string, int>> owned;  // host and GPU
  for (const RankSummary& rank : job.ranks) owned.insert({rank.hostname, rank.device});
  std::vector<StrayMemory> found;
  for (const RankSummary& rank : job.ranks) {
    for (const auto& [device, bytes] : rank.other_devices) {
      if (owned.contains({rank.hostname, device}) && HasPercent(bytes, rank.peak_total, 1))
        found.push_back({rank.rank, device, bytes});
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const StrayMemory& a, const StrayMemory& b) { return a.bytes > b.bytes; });
  return found;
}

std::vector<int> RunningRanks(const Job& job) {
  std::vector<int> running;
  for (const RankSummary& rank : job.ranks) {
    if (rank.ending == RunEnding::kRunning) running.push_back(rank.rank);
  }
  return running;
}

}  // namespace gpumem
