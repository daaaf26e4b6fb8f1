// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/job.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gpumem {
namespace {

constexpr size_t kMaxMissing = 100'000;  // a world size is what a trace says
constexpr size_t kMaxRuns = 4;           // of numbers in a text

// What `key` has otherwise than the job.
std::string DifferenceText(const JobKey& key, const JobKey& job) {
  std::vector<std::string> texts;
  if (key.id != job.id) texts.push_back(absl::StrCat("job ", key.id.empty() ? "(none)" : key.id));
  if (key.program != job.program) texts.push_back(absl::StrCat("program ", key.program));
  if (key.world_size != job.world_size)
    texts.push_back(key.world_size < 0 ? "no world size" : absl::StrCat("world size ", key.world_size));
  return absl::StrJoin(texts, ", ");
}

// Most ranks first; then the job that began last.
JobKey MostCommon(const std::vector<RankSummary>& ranks) {
  struct Seen {
    std::set<int> ranks;
    uint64_t newest_ns = 0;
  };
  std::map<JobKey, Seen> seen;
  for (const RankSummary& rank : ranks) {
    seen[rank.job].ranks.insert(rank.rank);
    seen[rank.job].newest_ns = std::max(seen[rank.job].newest_ns, rank.start_realtime_ns);
  }
  const auto most = std::max_element(seen.begin(), seen.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.second.ranks.size(), a.second.newest_ns) <
           std::tuple(b.second.ranks.size(), b.second.newest_ns);
  });
  return most == seen.end() ? JobKey() : most->first;
}

bool IsBelow(const RankSummary& rank, const RankSummary& above) {
  return rank.hostname == above.hostname &&
         std::find(rank.ancestors.begin(), rank.ancestors.end(), above.pid) != rank.ancestors.end();
}

bool IsSameProcess(const RankSummary& a, const RankSummary& b) {
  return a.hostname == b.hostname && a.pid == b.pid && a.start_ticks == b.start_ticks && a.start_ticks != 0;
}

// Traces that say they are the same rank: the one that is it comes first.
void PutRankFirst(std::vector<RankSummary>* same, std::vector<OtherTrace>* others) {
  const auto is_child = [&](const RankSummary& rank) {
    return std::any_of(same->begin(), same->end(), [&](const RankSummary& each) { return IsBelow(rank, each); });
  };
  std::vector<OtherTrace> left_out;
  std::vector<RankSummary> attempts;
  for (RankSummary& rank : *same) {
    if (is_child(rank)) {
      left_out.push_back({OtherTrace::Why::kChild, rank.file, rank.rank, "a child process of the rank"});
    } else {
      attempts.push_back(rank);
    }
  }
  if (attempts.empty()) return;  // each below another: a trace that says what cannot be; the first is taken
  std::sort(attempts.begin(), attempts.end(), [](const RankSummary& a, const RankSummary& b) {
    return std::tie(b.start_realtime_ns, b.file) < std::tie(a.start_realtime_ns, a.file);
  });
  for (size_t i = 1; i < attempts.size(); ++i) {
    const bool is_same = IsSameProcess(attempts[i], attempts[0]);
    left_out.push_back({is_same ? OtherTrace::Why::kSameProcess : OtherTrace::Why::kEarlierAttempt, attempts[i].file,
                        attempts[i].rank, is_same ? "another trace of the same process" : "an earlier attempt"});
  }
  others->insert(others->end(), left_out.begin(), left_out.end());
  *same = std::move(attempts);
}

void FindMissing(Job* job) {
  std::set<int> present;
  for (const RankSummary& rank : job->ranks) present.insert(rank.rank);
  const int64_t end = job->expected >= 0 ? job->expected : (present.empty() ? 0 : int64_t{*present.rbegin()} + 1);
  for (int rank = 0; rank < end && job->missing.size() < kMaxMissing; ++rank) {
    if (!present.contains(rank)) job->missing.push_back(rank);
  }
}

}  // namespace

absl::string_view OtherTraceName(OtherTrace::Why why) {
  constexpr absl::string_view kNames[] = {"unreadable",   "other_job", "earlier_attempt",
                                          "same_process", "child",     "no_rank"};
  return kNames[static_cast<size_t>(why)];
}

Job SortIntoJob(std::vector<RankSummary> summaries) {
  Job job;
  std::sort(summaries.begin(), summaries.end(),
            [](const RankSummary& a, const RankSummary& b) { return a.file < b.file; });
  std::vector<RankSummary> with_rank;
  for (RankSummary& each : summaries) {
    if (each.rank >= 0) {
      with_rank.push_back(std::move(each));
    } else {
      job.others.push_back({OtherTrace::Why::kNoRank, each.file, -1,
                            absl::StrCat("neither the trace of ", each.job.program, " nor its name says a rank")});
    }
  }
  job.key = MostCommon(with_rank);
  job.expected = job.key.world_size;
  std::map<int, std::vector<RankSummary>> by_rank;
  for (RankSummary& each : with_rank) {
    if (each.job == job.key) {
      by_rank[each.rank].push_back(std::move(each));
    } else {
      job.others.push_back({OtherTrace::Why::kOtherJob, each.file, each.rank, DifferenceText(each.job, job.key)});
    }
  }
  for (auto& [rank, same] : by_rank) {
    PutRankFirst(&same, &job.others);
    job.ranks.push_back(std::move(same.front()));
  }
  std::sort(job.others.begin(), job.others.end(),
            [](const OtherTrace& a, const OtherTrace& b) { return a.file < b.file; });
  FindMissing(&job);
  return job;
}

std::vector<int> DamagedRanks(const Job& job) {
  std::vector<int> ranks;
  for (const RankSummary& rank : job.ranks) {
    if (!rank.damage.empty()) ranks.push_back(rank.rank);
  }
  return ranks;
}

std::vector<int> SummaryOnlyRanks(const Job& job) {
  std::vector<int> ranks;
  for (const RankSummary& rank : job.ranks) {
    if (rank.summary_only) ranks.push_back(rank.rank);
  }
  return ranks;
}

std::string RanksText(const std::vector<int>& ranks) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] - 1 == ranks[end - 1]) ++end;
    if (end - i >= 3) {
      runs.push_back(absl::StrCat(ranks[i], " to ", ranks[end - 1]));
    } else {
      for (size_t j = i; j < end; ++j) runs.push_back(absl::StrCat(ranks[j]));
    }
    i = end;
  }
  if (ranks.size() == 1) return absl::StrCat("rank ", ranks.front());
  if (runs.size() > kMaxRuns) {
    runs.resize(kMaxRuns);
    return absl::StrCat(ranks.size(), " ranks (", absl::StrJoin(runs, ", "), ", ...)");
  }
  if (runs.size() < 2) return absl::StrCat("ranks ", absl::StrJoin(runs, ""));
  const std::string last = runs.back();
  runs.pop_back();
  return absl::StrCat("ranks ", absl::StrJoin(runs, ", "), " and ", last);
}

}  // namespace gpumem
