// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ranks.h"

#include <algorithm>

namespace gpumem::testing {

RankSummary MakeRank(int rank, int world_size, uint64_t bytes, uint64_t steps) {
  RankSummary summary;
  summary.file = "run.r" + std::to_string(1000 + rank) + ".gmtrace";
  summary.rank = rank;
  summary.local_rank = rank % 8;
  summary.hostname = "node" + std::to_string(rank / 8);
  summary.job = {"job", "train", world_size};
  summary.pid = 100 + static_cast<uint32_t>(rank);
  summary.start_ticks = 7;
  summary.start_realtime_ns = 1'000'000'000;
  summary.last_realtime_ns = 2'000'000'000;
  summary.ending = RunEnding::kCompleted;
  summary.device = rank % 8;
  summary.peak_allocated = summary.peak_reserved = summary.peak_total = bytes;
  SetPeaks(1, steps, bytes, &summary);
  return summary;
}

std::vector<RankSummary> MakeRanks(int world_size, uint64_t bytes, uint64_t steps) {
  std::vector<RankSummary> ranks;
  for (int rank = 0; rank < world_size; ++rank) ranks.push_back(MakeRank(rank, world_size, bytes, steps));
  return ranks;
}

void SetPeaks(uint64_t first, uint64_t last, uint64_t bytes, RankSummary* rank) {
  StepPeaks peaks;
  for (uint64_t step = 1; step <= std::max(last, rank->steps.last_ended()); ++step) {
    const StepPeak* const old = rank->steps.InWindow(step);
    const uint64_t peak = step >= first && step <= last ? bytes : old == nullptr ? 0 : old->allocated;
    peaks.Add({step, peak, peak}, true);
    rank->peak_allocated = std::max(rank->peak_allocated, peak);
    rank->peak_reserved = rank->peak_total = std::max(rank->peak_total, peak);
  }
  rank->steps = peaks;
}

void HoldParameters(const std::vector<uint64_t>& names, uint64_t folded, RankSummary* rank) {
  for (const uint64_t name : names) rank->parameters.push_back({name, folded, 1000});
  std::sort(rank->parameters.begin(), rank->parameters.end());
}

}  // namespace gpumem::testing
