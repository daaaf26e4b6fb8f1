// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/rank_causes.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "answers/compare/cause.h"
#include "answers/compare/diff.h"

namespace gpumem {
namespace {

const RankSummary* Find(const Job& job, int rank) {
  const auto found =
      std::find_if(job.ranks.begin(), job.ranks.end(), [&](const RankSummary& each) { return each.rank == rank; });
  return found == job.ranks.end() ? nullptr : &*found;
}

// A diff chooses what it speaks of by what changed most; here that is known.
void SetSubject(RanksSubject subject, Diff* diff) {
  if (diff->subject == "total") return;
  const auto change = [](uint64_t was, uint64_t now) { return static_cast<int64_t>(now) - static_cast<int64_t>(was); };
  const MeasureValues &a = diff->a.values, &b = diff->b.values;
  if (subject == RanksSubject::kAllocated) {
    diff->subject = "allocated";
    diff->delta = change(a.allocated, b.allocated);
  } else {
    const int64_t reserved = change(a.reserved, b.reserved);
    const int64_t outside = change(a.other + diff->a.context, b.other + diff->b.context);
    const bool is_reserved = std::abs(reserved) > std::abs(outside);
    diff->subject = is_reserved ? "reserved" : "outside";
    diff->delta = is_reserved ? reserved : outside;
  }
  diff->cause = FindCause(*diff);
}

}  // namespace

void FindRankCauses(const Job& job, size_t most, const LoadFacts& load, RanksVerdict* verdict) {
  RunFacts reference;  // the last one, with whose it is
  int reference_rank = -1;
  std::string reference_moment;
  for (size_t i = 0; i < verdict->deviations.size() && (most == 0 || i < most); ++i) {
    Deviation& deviation = verdict->deviations[i];
    deviation.cause.kind = CauseKind::kUnknown;
    const RankSummary *const of = Find(job, deviation.compared), *const to = Find(job, deviation.compared_to);
    if (of == nullptr || to == nullptr) continue;
    for (const RankSummary* const each : {of, to}) {
      if (each->summary_only) deviation.without_trace.push_back(each->rank);
    }
    if (!deviation.without_trace.empty()) continue;
    if (reference_rank != to->rank || reference_moment != deviation.moment_to) {
      absl::StatusOr<RunFacts> loaded = load(*to, deviation.moment_to);
      if (!loaded.ok()) continue;
      reference = *std::move(loaded);
      reference_rank = to->rank;
      reference_moment = deviation.moment_to;
    }
    absl::StatusOr<RunFacts> facts = load(*of, deviation.moment);
    if (!facts.ok()) continue;
    Diff diff = DiffRuns(reference, *std::move(facts), /*same_trace=*/false);
    SetSubject(verdict->subject, &diff);
    deviation.cause = std::move(diff.cause);
  }
}

}  // namespace gpumem
