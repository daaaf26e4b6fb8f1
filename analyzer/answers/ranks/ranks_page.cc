// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "answers/compare/diff_answer.h"
#include "answers/ranks/ranks_report.h"
#include "base/format.h"
#include "ledger/stacks/names.h"
#include "trace/roles.h"

namespace gpumem {
namespace {

std::string StateText(const RankSummary& rank) {
  std::string text;
  switch (rank.ending) {
    case RunEnding::kCompleted:
      text = "ended";
      break;
    case RunEnding::kOutOfMemory:
      text = "out of memory";
      break;
    case RunEnding::kKilled:
      text = "killed";
      break;
    case RunEnding::kRunning:
      text = rank.summary_only ? absl::StrCat("running at ", FormatUtc(rank.last_realtime_ns)) : "running";
      break;
    case RunEnding::kUnknown:
      text = "end missing";
      break;
  }
  if (rank.summary_only) absl::StrAppend(&text, ", summary only");
  if (rank.steps_missed) absl::StrAppend(&text, ", steps missed");
  if (!rank.damage.empty()) absl::StrAppend(&text, ", damaged");
  if (rank.lost_events > 0) absl::StrAppend(&text, ", ", FormatCount(rank.lost_events), " lost");
  return text;
}

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

void AddLeftOut(size_t count, Page* page) {
  if (count > 0) page->Line(absl::StrCat("  ", FormatCount(count), " more (--top 0 shows them)"), Tone::kAside);
}

size_t Shown(size_t count, size_t top) { return top == 0 ? count : std::min(count, top); }

void AddJob(const RanksReport& report, Page* page) {
  const Job& job = report.job;
  const RanksVerdict& verdict = report.verdict;
  std::string text = absl::StrCat(job.key.program, ", ", FormatCount(job.ranks.size()));
  if (job.expected >= 0) absl::StrAppend(&text, " of ", job.expected);
  absl::StrAppend(&text, job.expected == 1 || (job.expected < 0 && job.ranks.size() == 1) ? " rank" : " ranks");
  std::vector<std::string> hosts;
  for (const RankSummary& rank : job.ranks) hosts.push_back(rank.hostname);
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  absl::StrAppend(&text, " on ", FormatCountOf(hosts.size(), "host", "hosts"));
  if (!job.key.id.empty()) absl::StrAppend(&text, ", job ", job.key.id);
  page->Paragraph("job      ", text);
  if (verdict.values.empty()) return;
  page->Paragraph("balance  ",
                  absl::StrFormat("max/mean %.3f, max/median %.3f; %s to %s, median %s (rank %d), skew %s, %s",
                                  verdict.MaxOverMean(), verdict.MaxOverMedian(), FormatBytes(verdict.least),
                                  FormatBytes(verdict.most), FormatBytes(verdict.median), verdict.median_rank,
                                  FormatBytes(verdict.most - verdict.least), MomentText(verdict)));
  if (const std::vector<int> alone = SummaryOnlyRanks(job); !alone.empty())
    page->Paragraph("summary only  ", absl::StrCat(RanksText(alone), ": no trace was kept, and no cause is known of ",
                                                   alone.size() == 1 ? "it" : "them"));
  if (!verdict.running.empty()) page->Paragraph("running  ", RanksText(verdict.running));
  if (!verdict.transients.empty())
    page->Paragraph("passing  ",
                    absl::StrCat(RanksText(verdict.transients), verdict.transients.size() == 1 ? " is" : " are",
                                 " unlike the others ", MomentText(verdict), ", not in most steps"));
  if (!verdict.not_compared.empty())
    page->Paragraph("not compared  ",
                    absl::StrCat(RanksText(verdict.not_compared), ": nothing known ", MomentText(verdict)));
}

void AddDeviations(const RanksReport& report, size_t top, Page* page) {
  const RanksVerdict& verdict = report.verdict;
  if (verdict.deviations.empty()) return;
  page->Gap();
  page->Line("Ranks unlike the median rank", Tone::kHeading);
  const size_t shown = Shown(verdict.deviations.size(), top);
  for (size_t i = 0; i < shown; ++i) {
    const Deviation& each = verdict.deviations[i];
    // What was not looked for is not said to be unknown.
    const std::string cause = each.cause.kind == CauseKind::kNone ? "" : absl::StrCat(": ", RankCauseText(each));
    page->Paragraph("  ", absl::StrCat(each.by_design ? "another part of the model: " : "",
                                       DeviationText(each, verdict), " ", MomentText(verdict), cause));
  }
  AddLeftOut(verdict.deviations.size() - shown, page);
}

void AddFirstOom(const RanksReport& report, size_t top, Page* page) {
  if (!report.verdict.first_oom) return;
  const FirstOom& oom = *report.verdict.first_oom;
  page->Gap();
  page->Line(absl::StrCat("First out of memory: rank ", oom.rank, ", ", FormatUtc(oom.realtime_ns)), Tone::kHeading);
  std::vector<Page::Row> rows{{"held then", "rank"}};
  rows.push_back(
      {FormatBytesAligned(oom.allocated), absl::StrCat(oom.rank, "  and asked for ", FormatBytes(oom.refused))});
  const size_t shown = Shown(oom.others.size(), top);
  for (size_t i = 0; i < shown; ++i) {
    const RankValue& value = oom.others[oom.others.size() - 1 - i];
    rows.push_back({FormatBytesAligned(value.bytes), absl::StrCat(value.rank)});
  }
  page->Table({Align::kRight, Align::kLeft}, rows);
  AddLeftOut(oom.others.size() - shown, page);
}

// "+31 MiB"; "" where the rank was not compared.
std::string AgainstMedian(const RankValue* value, const RanksVerdict& verdict) {
  if (value == nullptr) return "";
  return SignedBytes(static_cast<int64_t>(value->bytes) - static_cast<int64_t>(verdict.median));
}

void AddRankRows(const RanksReport& report, size_t top, Page* page) {
  const RanksVerdict& verdict = report.verdict;
  const auto value_of = [&](int rank) -> const RankValue* {
    const auto found = std::find_if(verdict.values.begin(), verdict.values.end(),
                                    [&](const RankValue& value) { return value.rank == rank; });
    return found == verdict.values.end() ? nullptr : &*found;
  };
  std::vector<const RankSummary*> ranks;
  for (const RankSummary& rank : report.job.ranks) ranks.push_back(&rank);
  // Those furthest from the median are shown, by rank; what was not compared comes first among them.
  const auto apart = [&](const RankSummary* rank) {
    const RankValue* const value = value_of(rank->rank);
    if (value == nullptr) return UINT64_MAX;
    return std::max(value->bytes, verdict.median) - std::min(value->bytes, verdict.median);
  };
  std::stable_sort(ranks.begin(), ranks.end(), [&](const auto* a, const auto* b) { return apart(a) > apart(b); });
  const size_t left_out = ranks.size() - Shown(ranks.size(), top);
  ranks.resize(ranks.size() - left_out);
  std::sort(ranks.begin(), ranks.end(), [](const auto* a, const auto* b) { return a->rank < b->rank; });
  page->Gap();
  page->Line(absl::StrCat("Ranks, memory ", MomentText(verdict)), Tone::kHeading);
  const bool has_roles = std::any_of(ranks.begin(), ranks.end(), [](const auto* rank) { return !rank->roles.empty(); });
  std::vector<Page::Row> rows{
      {"rank", "host", "GPU", "memory", "vs median", "peak", "reserved", "NCCL", "steps", "state", "file"}};
  for (const RankSummary* const rank : ranks) {
    const RankValue* const value = value_of(rank->rank);
    const absl::string_view sign = BoundSign(rank->Bound());
    rows.push_back({absl::StrCat(rank->rank), rank->hostname, rank->device < 0 ? "" : absl::StrCat(rank->device),
                    value == nullptr ? "" : FormatBytesAligned(value->bytes), AgainstMedian(value, verdict),
                    absl::StrCat(sign, FormatBytesAligned(rank->Peak())),
                    absl::StrCat(sign, FormatBytesAligned(rank->peak_reserved)),
                    rank->communicator_bytes == 0 ? "" : FormatBytesAligned(rank->communicator_bytes),
                    absl::StrCat(rank->steps.last_ended()), StateText(*rank), FileName(rank->file)});
  }
  std::vector<Align> alignment = {Align::kRight, Align::kLeft,  Align::kRight, Align::kRight,
                                  Align::kRight, Align::kRight, Align::kRight, Align::kRight,
                                  Align::kRight, Align::kLeft,  Align::kLeft};
  if (has_roles) {
    constexpr std::ptrdiff_t kBefore = 2;  // behind the host
    rows[0].insert(rows[0].begin() + kBefore, "role");
    for (size_t i = 0; i < ranks.size(); ++i)
      rows[i + 1].insert(rows[i + 1].begin() + kBefore, RolesText(ranks[i]->roles));
    alignment.insert(alignment.begin() + kBefore, Align::kLeft);
  }
  page->Table(alignment, rows);
  AddLeftOut(left_out, page);
}

void AddSteps(const RanksReport& report, size_t top, Page* page) {
  const std::vector<StepRow>& steps = report.verdict.steps;
  page->Gap();
  page->Line("Peaks by step", Tone::kHeading);
  if (steps.empty()) page->Line("  no training steps were seen in these traces");
  if (steps.empty()) return;
  std::vector<Page::Row> rows{{"step", "least", "median", "most", "max/median", "most in rank", "ranks"}};
  // The last ones: what grows shows there.
  const size_t shown = Shown(steps.size(), top);
  for (size_t i = steps.size() - shown; i < steps.size(); ++i) {
    const StepRow& step = steps[i];
    const double ratio = step.median == 0 ? 1 : static_cast<double>(step.most) / static_cast<double>(step.median);
    rows.push_back({step.first == step.last ? absl::StrCat(step.first) : absl::StrCat(step.first, "-", step.last),
                    FormatBytesAligned(step.least), FormatBytesAligned(step.median), FormatBytesAligned(step.most),
                    absl::StrFormat("%.3f", ratio), absl::StrCat(step.most_rank), absl::StrCat(step.ranks)});
  }
  page->Table({Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight},
              rows);
  AddLeftOut(steps.size() - shown, page);
}

void AddDamage(const Job& job, size_t top, Page* page) {
  size_t damaged = 0;
  for (const RankSummary& rank : job.ranks) {
    if (rank.damage.empty()) continue;
    if (top == 0 || damaged++ < top)
      page->Paragraph("damage  ", absl::StrCat("rank ", rank.rank, ", ", rank.file, ": ", rank.damage), Tone::kWarning);
  }
}

void AddOtherGpus(const Job& job, Page* page) {
  for (const RankSummary& rank : job.ranks) {
    for (const auto& [device, bytes] : rank.other_devices)
      page->Paragraph("note  ", absl::StrCat("rank ", rank.rank, " also has ", FormatBytes(bytes), " on GPU ", device,
                                             ", beside its own GPU ", rank.device));
  }
}

}  // namespace

void AddRanks(const RanksReport& report, const RanksOptions& options, Page* page) {
  const bool is_fine = RanksDoubts(report).empty();
  page->Paragraph("", RanksHeadline(report), is_fine ? Tone::kHeading : Tone::kWarning);
  page->Gap();
  AddJob(report, page);
  AddDeviations(report, options.top, page);
  AddFirstOom(report, options.top, page);
  if (!report.job.ranks.empty()) AddRankRows(report, options.top, page);
  if (options.by_step) AddSteps(report, options.top, page);
  if (!report.job.others.empty()) {
    page->Gap();
    page->Line("Traces that were left out", Tone::kHeading);
    const size_t shown = Shown(report.job.others.size(), options.top);
    for (size_t i = 0; i < shown; ++i)
      page->Line(absl::StrCat("  ", report.job.others[i].file, ": ", report.job.others[i].text));
    AddLeftOut(report.job.others.size() - shown, page);
  }
  page->Gap();
  AddDamage(report.job, options.top, page);
  AddOtherGpus(report.job, page);
  if (report.verdict.deviations.empty()) return;
  const Deviation& worst = report.verdict.deviations.front();
  const auto file = [&](int rank) {
    const auto found = std::find_if(report.job.ranks.begin(), report.job.ranks.end(),
                                    [&](const RankSummary& each) { return each.rank == rank; });
    return ShellQuoted(found->file);
  };
  if (!worst.without_trace.empty()) return;
  page->Paragraph("  ", absl::StrCat("Next: gpumemshim diff ", file(worst.compared_to), " ", file(worst.compared),
                                     worst.moment == "peak"
                                         ? ""
                                         : absl::StrCat(" --from '", worst.moment_to, "' --to '", worst.moment, "'")));
}

}  // namespace gpumem
