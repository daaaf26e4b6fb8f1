// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/ranks/persistent.h"
#include "answers/ranks/ranks_report.h"
#include "base/format.h"

namespace gpumem {
namespace {

void AddOthers(const Job& job, OtherTrace::Why why, absl::string_view one, absl::string_view many,
               std::vector<std::string>* doubts) {
  std::vector<std::string> texts;
  for (const OtherTrace& other : job.others) {
    if (other.why == why && std::find(texts.begin(), texts.end(), other.text) == texts.end())
      texts.push_back(other.text);
  }
  const auto count = static_cast<uint64_t>(
      std::count_if(job.others.begin(), job.others.end(), [&](const OtherTrace& other) { return other.why == why; }));
  if (count == 0) return;
  std::string text = FormatCountOf(count, one, many);
  if (why == OtherTrace::Why::kOtherJob && texts.size() == 1) absl::StrAppend(&text, " (", texts.front(), ")");
  doubts->push_back(std::move(text));
}

std::string OomText(const FirstOom& oom) {
  std::string text = absl::StrCat("rank ", oom.rank, " ran out of memory first");
  if (oom.step != 0) absl::StrAppend(&text, ", at step ", oom.step);
  absl::StrAppend(&text, " (", FormatBytes(oom.refused), " refused, ", FormatBytes(oom.allocated), " allocated)");
  if (oom.others.size() == 1)
    absl::StrAppend(&text, ", rank ", oom.others.front().rank, " held ", FormatBytes(oom.others.front().bytes));
  if (oom.others.size() > 1) {
    const std::string least = FormatBytes(oom.others.front().bytes), most = FormatBytes(oom.others.back().bytes);
    absl::StrAppend(&text, ", the others held ", least == most ? "" : absl::StrCat(least, " to "), most);
  }
  return text;
}

// Those that are behind for the same reason, in one phrase.
void AddStragglers(const RanksVerdict& verdict, std::vector<std::string>* events) {
  std::vector<int> stopped, slow, killed;
  for (const Straggler& each : verdict.stragglers) {
    if (verdict.first_oom && each.rank == verdict.first_oom->rank) continue;
    if (each.ending == RunEnding::kRunning) {
      slow.push_back(each.rank);
    } else if (each.behind == 0) {
      killed.push_back(each.rank);
    } else {
      stopped.push_back(each.rank);
    }
  }
  for (auto* ranks : {&stopped, &slow, &killed}) std::sort(ranks->begin(), ranks->end());
  const auto last = [&](int rank) {
    const auto found = std::find_if(verdict.stragglers.begin(), verdict.stragglers.end(),
                                    [&](const Straggler& each) { return each.rank == rank; });
    return absl::StrCat(
        found->last_step == 0 ? "before its first step ended" : absl::StrCat("after step ", found->last_step), ", ",
        FormatCountOf(found->behind, "step", "steps"), " before the median rank");
  };
  if (!stopped.empty())
    events->push_back(absl::StrCat(RanksText(stopped), " stopped early (", last(stopped.front()), ")"));
  if (!slow.empty())
    events->push_back(
        absl::StrCat(RanksText(slow), slow.size() == 1 ? " is" : " are", " behind (", last(slow.front()), ")"));
  if (!killed.empty())
    events->push_back(absl::StrCat(RanksText(killed), killed.size() == 1 ? " was" : " were", " killed"));
}

// All ranks that have memory on the same GPU of another, in one phrase.
void AddStray(const RanksVerdict& verdict, std::vector<std::string>* events) {
  if (verdict.stray.empty()) return;
  const StrayMemory& most = verdict.stray.front();
  std::vector<int> ranks;
  for (const StrayMemory& each : verdict.stray) {
    if (each.device == most.device) ranks.push_back(each.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  events->push_back(absl::StrCat(RanksText(ranks), ranks.size() == 1 ? " also has " : " also have up to ",
                                 FormatBytes(most.bytes), " on GPU ", most.device, ", which is another rank's"));
}

std::string SpanText(uint64_t least, uint64_t most) {
  const std::string from = FormatBytes(least), to = FormatBytes(most);
  return from == to ? absl::StrCat("all hold ", to) : absl::StrCat("they hold ", from, " to ", to);
}

std::string BalancedText(const RanksReport& report) {
  const RanksVerdict& verdict = report.verdict;
  return absl::StrCat("balanced: ", FormatCountOf(verdict.values.size(), "rank", "ranks"), ", ",
                      SpanText(verdict.least, verdict.most), " ", MomentText(verdict));
}

std::string Sentence(const RanksReport& report) {
  const RanksVerdict& verdict = report.verdict;
  if (verdict.kind == RanksKind::kNothing) {
    if (report.job.ranks.empty()) return "no trace says its rank: nothing to compare";
    if (verdict.values.empty()) return "no rank's memory can be compared there";
    return absl::StrCat("only rank ", verdict.values.front().rank, " can be compared, it holds ",
                        FormatBytes(verdict.most), " ", MomentText(verdict));
  }
  if (verdict.kind == RanksKind::kBalanced) return BalancedText(report);
  const Deviation& worst = verdict.deviations.front();
  const std::string which =
      absl::StrCat(DeviationText(worst, verdict), " ", MomentText(verdict), ": ", RankCauseText(worst));
  if (verdict.kind == RanksKind::kUneven)
    return verdict.even_at_peak ? absl::StrCat("balanced at the highest step, but ", which) : which;
  if (verdict.has_lone_parts)
    return absl::StrCat("the ranks hold ", verdict.parts, " different parts of the model and differ by design; ",
                        which);
  return absl::StrCat("balanced within each of ", verdict.parts, " parts of the model; by design ", which);
}

// Where it is not the median rank that others are compared with: the largest group of ranks need not hold it.
std::string AgainstMedianText(uint64_t bytes, const RanksVerdict& verdict) {
  const uint64_t median = MedianOf(verdict.values).bytes;
  const uint64_t apart = std::max(bytes, median) - std::min(bytes, median);
  if (apart <= EqualWithin(verdict.values)) return ", which holds about the median";
  return absl::StrCat(", which holds ", FormatBytes(apart), bytes < median ? " less" : " more",
                      " than the median rank");
}

}  // namespace

std::string MomentText(const RanksVerdict& verdict) {
  if (!verdict.by_step) return "at the peak";
  if (verdict.first_step == verdict.last_step) return absl::StrCat("at step ", verdict.first_step);
  return absl::StrCat("in steps ", verdict.first_step, " to ", verdict.last_step);
}

std::string DeviationText(const Deviation& deviation, const RanksVerdict& verdict) {
  const int64_t delta = deviation.delta();
  const double share = deviation.compared_to_bytes == 0
                           ? 0
                           : std::abs(static_cast<double>(delta)) / static_cast<double>(deviation.compared_to_bytes);
  const bool is_one = deviation.ranks.size() == 1;
  std::string text = absl::StrCat(RanksText(deviation.ranks), is_one ? " holds " : " hold ",
                                  FormatBytes(static_cast<uint64_t>(std::abs(delta))));
  if (share > 0) absl::StrAppend(&text, " (", FormatPercent(share), ")");
  absl::StrAppend(&text, delta < 0 ? " less" : " more",
                  verdict.subject == RanksSubject::kCudaMemory ? " CUDA memory than " : " than ", "rank ",
                  deviation.compared_to);
  if (verdict.values.size() <= 2) return text;
  const bool is_of_part = verdict.parts > 1 && !deviation.by_design;
  if (!is_of_part && deviation.compared_to != verdict.median_rank)
    return absl::StrCat(text, AgainstMedianText(deviation.compared_to_bytes, verdict), ",");
  return absl::StrCat(text, is_of_part ? ", which has the same part of the model," : ", the median rank,");
}

std::string RankCauseText(const Deviation& deviation) {
  if (!deviation.without_trace.empty())
    return absl::StrCat("cause not known, ", RanksText(deviation.without_trace),
                        deviation.without_trace.size() == 1 ? " keeps a summary alone" : " keep summaries alone");
  if (deviation.cause.kind == CauseKind::kNone || deviation.cause.kind == CauseKind::kUnknown)
    return "cause not known, no group of blocks explains half of it";
  return deviation.cause.text;
}

std::vector<std::string> RanksDoubts(const RanksReport& report) {
  const Job& job = report.job;
  std::vector<std::string> doubts;
  if (!job.missing.empty()) {
    const std::string of = job.expected >= 0 ? absl::StrCat(" of ", job.expected) : "";
    doubts.push_back(absl::StrCat(RanksText(job.missing), of, job.missing.size() == 1 ? " is" : " are", " missing"));
  }
  if (const std::vector<int> damaged = DamagedRanks(job); !damaged.empty())
    doubts.push_back(
        absl::StrCat(RanksText(damaged), damaged.size() == 1 ? " has a damaged trace" : " have damaged traces"));
  std::vector<int> lossy;
  for (const RankSummary& rank : job.ranks) {
    if (rank.lost_events > 0 && rank.damage.empty()) lossy.push_back(rank.rank);
  }
  if (!lossy.empty()) doubts.push_back(absl::StrCat(RanksText(lossy), " lost events"));
  AddOthers(job, OtherTrace::Why::kUnreadable, "trace cannot be read", "traces cannot be read", &doubts);
  AddOthers(job, OtherTrace::Why::kOtherJob, "trace is of another job", "traces are of another job", &doubts);
  AddOthers(job, OtherTrace::Why::kNoRank, "trace has no rank", "traces have no rank", &doubts);
  AddOthers(job, OtherTrace::Why::kEarlierAttempt, "trace is of an earlier attempt", "traces are of earlier attempts",
            &doubts);
  return doubts;
}

std::string RanksHeadline(const RanksReport& report) {
  std::vector<std::string> before = RanksDoubts(report);
  if (report.verdict.first_oom) before.push_back(OomText(*report.verdict.first_oom));
  AddStragglers(report.verdict, &before);
  AddStray(report.verdict, &before);
  before.push_back(Sentence(report));
  return absl::StrJoin(before, "; ");
}

}  // namespace gpumem
