// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "answers/compare/diff_answer.h"
#include "answers/ranks/ranks_report.h"
#include "base/format.h"
#include "ledger/load/example_traces.h"
#include "ledger/stacks/names.h"
#include "trace/object_table.h"

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

void AddLeftOut(size_t count, Document* answer) {
  if (count > 0) answer->Line(absl::StrCat("  ", FormatCount(count), " more: --top 0"), Tone::kAside);
}

void AddJob(const RanksReport& report, Document* answer) {
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
  answer->Paragraph("job      ", text);
  if (verdict.values.empty()) return;
  answer->Paragraph("balance  ",
                    absl::StrFormat("max/mean %.3f, max/median %.3f; %s to %s, median %s (rank %d), skew %s, %s",
                                    verdict.MaxOverMean(), verdict.MaxOverMedian(), FormatBytes(verdict.least),
                                    FormatBytes(verdict.most), FormatBytes(verdict.median), verdict.median_rank,
                                    FormatBytes(verdict.most - verdict.least), MomentText(verdict)));
  if (const std::vector<int> alone = SummaryOnlyRanks(job); !alone.empty())
    answer->Paragraph("summary only  ", absl::StrCat(RanksText(alone), ": no trace was kept, and no cause is known of ",
                                                     alone.size() == 1 ? "it" : "them"));
  if (!verdict.running.empty()) answer->Paragraph("running  ", RanksText(verdict.running));
  if (!verdict.transients.empty())
    answer->Paragraph("passing  ",
                      absl::StrCat(RanksText(verdict.transients), verdict.transients.size() == 1 ? " is" : " are",
                                   " unlike the others ", MomentText(verdict), ", not in most steps"));
  if (!verdict.not_compared.empty())
    answer->Paragraph("not compared  ",
                      absl::StrCat(RanksText(verdict.not_compared), ": nothing known ", MomentText(verdict)));
}

void AddDeviations(const RanksReport& report, size_t top, Document* answer) {
  const RanksVerdict& verdict = report.verdict;
  if (verdict.deviations.empty()) return;
  answer->Heading("Ranks unlike the median rank");
  const size_t shown = Shown(verdict.deviations.size(), top);
  for (size_t i = 0; i < shown; ++i) {
    const Deviation& each = verdict.deviations[i];
    // What was not looked for is not said to be unknown.
    const std::string cause = each.cause.kind == CauseKind::kNone ? "" : absl::StrCat(": ", RankCauseText(each));
    answer->Paragraph("  ", absl::StrCat(each.by_design ? "another part of the model: " : "",
                                         DeviationText(each, verdict), " ", MomentText(verdict), cause));
  }
  AddLeftOut(verdict.deviations.size() - shown, answer);
}

void AddFirstOom(const RanksReport& report, size_t top, Document* answer) {
  if (!report.verdict.first_oom) return;
  const FirstOom& oom = *report.verdict.first_oom;
  answer->Heading(absl::StrCat("First out of memory: rank ", oom.rank, ", ", FormatUtc(oom.realtime_ns)));
  using Row = std::pair<uint64_t, std::string>;
  auto rows = std::make_shared<std::vector<Row>>();
  rows->push_back({oom.allocated, absl::StrCat(oom.rank, "  and asked for ", FormatBytes(oom.refused))});
  const size_t shown = Shown(oom.others.size(), top);
  for (size_t i = 0; i < shown; ++i) {
    const RankValue& value = oom.others[oom.others.size() - 1 - i];
    rows->push_back({value.bytes, absl::StrCat(value.rank)});
  }
  answer->Table("", "",
                std::vector<AnswerColumn<Row>>{{"", "held then", Unit::kAlignedBytes, "", &Row::first},
                                               {"", "rank", Unit::kText, "", &Row::second}},
                std::shared_ptr<const std::vector<Row>>(rows), {});
  AddLeftOut(oom.others.size() - shown, answer);
}

using RankColumn = AnswerColumn<const RankSummary*>;
constexpr char kRank[] =
    "one object a rank: `rank`, `rank_of_name` (the file's name says it, not the trace), `local_rank`, `hostname`, "
    "`roles` (in the job's layout, by its process groups: `name`, `rank`, `size`), `pid`, `file`, `device`, `bytes` "
    "(compared; null = not), peaks, `peak_bound` (`at_least` where the rank lost events or its trace is damaged), "
    "`categories` at the peak, `steps`, `summary_only` (it kept no trace), `steps_missed` (its last steps are not in "
    "its summary), `ended` (`running`: when the trace was read, or the summary was written), `total_events` (null: not "
    "known, of a long run without a trace), `lost_events`, `damage`";

// nullptr: the rank was not compared.
const RankValue* ValueOf(const RankSummary& rank, const RanksVerdict& verdict) {
  const auto found = std::find_if(verdict.values.begin(), verdict.values.end(),
                                  [&](const RankValue& value) { return value.rank == rank.rank; });
  return found == verdict.values.end() ? nullptr : &*found;
}

// "+31 MiB".
std::string AgainstMedian(const RankValue* value, const RanksVerdict& verdict) {
  if (value == nullptr) return "";
  return SignedBytes(static_cast<int64_t>(value->bytes) - static_cast<int64_t>(verdict.median));
}

Datum RolesDatum(const std::vector<RankRole>& roles) {
  std::vector<Datum> list;
  for (const RankRole& role : roles)
    list.push_back(Datum::Object({{"name", role.name}, {"rank", role.rank}, {"size", role.size}}));
  return Datum::List(std::move(list));
}

Datum CategoriesOfRank(const CategoryBytes& bytes) {
  std::vector<Member> members;
  for (size_t i = 0; i < kCategories; ++i) {
    if (bytes[i] > 0) members.push_back({std::string(CategoryName(static_cast<Category>(i))), bytes[i]});
  }
  return Datum::Object(std::move(members));
}

Datum OtherDevices(const std::map<int, uint64_t>& devices) {
  std::vector<Datum> list;
  for (const auto& [device, bytes] : devices) list.push_back(Datum::Object({{"device", device}, {"bytes", bytes}}));
  return Datum::List(std::move(list));
}

std::vector<RankColumn> PlaceColumns() {
  RankColumn roles(
      "roles", "role", Unit::kText, "", [](const auto* rank) { return RolesDatum(rank->roles); },
      [](const auto* rank) { return RolesText(rank->roles); });
  roles.telling = [](const auto* rank) { return !rank->roles.empty(); };
  return {
      {"rank", "rank", Unit::kNumber, "", &RankSummary::rank},
      {"rank_of_name", "", &RankSummary::rank_of_name},
      {"local_rank", "", [](const auto* rank) { return Datum::If(rank->local_rank >= 0, rank->local_rank); }},
      {"hostname", "host", Unit::kText, "", &RankSummary::hostname},
      std::move(roles),
      {"pid", "", &RankSummary::pid},
      {"device", "GPU", Unit::kNumber, "", [](const auto* rank) { return Datum::If(rank->device >= 0, rank->device); }},
  };
}

std::vector<RankColumn> MemoryColumns(const RanksVerdict& verdict) {
  const auto peak = [](const RankSummary& rank, uint64_t bytes) {
    return absl::StrCat(BoundSign(rank.Bound()), FormatBytesAligned(bytes));
  };
  return {
      {"bytes", "memory", Unit::kAlignedBytes, "",
       [&](const auto* rank) {
         const RankValue* const value = ValueOf(*rank, verdict);
         return value == nullptr ? Datum() : Datum(value->bytes);
       }},
      {"", "vs median", Unit::kGrowth, "", nullptr,
       [&](const auto* rank) { return AgainstMedian(ValueOf(*rank, verdict), verdict); }},
      {"", "peak", Unit::kBytes, "", nullptr, [=](const auto* rank) { return peak(*rank, rank->Peak()); }},
      {"peak_reserved_bytes", "reserved", Unit::kBytes, "", &RankSummary::peak_reserved,
       [=](const auto* rank) { return peak(*rank, rank->peak_reserved); }},
      {"peak_allocated_bytes", "", &RankSummary::peak_allocated},
      {"peak_total_bytes", "", &RankSummary::peak_total},
      {"peak_bound", "", [](const auto* rank) { return PeakBoundName(rank->Bound()); }},
      {"context_bytes", "", &RankSummary::context},
      {"communicator_bytes", "NCCL", Unit::kBytes,
       "of NCCL at the peak, outside of PyTorch; 0 also where no stack or library says so",
       &RankSummary::communicator_bytes,
       [](const auto* rank) {
         return rank->communicator_bytes == 0 ? "" : FormatBytesAligned(rank->communicator_bytes);
       }},
      {"categories", "", [](const auto* rank) { return CategoriesOfRank(rank->categories); }},
      {"other_devices", "memory on GPUs that are not the rank's own: `device`, `bytes`",
       [](const auto* rank) { return OtherDevices(rank->other_devices); }},
  };
}

std::vector<RankColumn> RankColumns(const RanksVerdict& verdict) {
  std::vector<RankColumn> columns = PlaceColumns();
  for (RankColumn& column : MemoryColumns(verdict)) columns.push_back(std::move(column));
  for (RankColumn& column : std::vector<RankColumn>{
           {"steps", "", [](const auto* rank) { return rank->steps.complete(); }},
           {"last_step", "steps", Unit::kNumber, "", [](const auto* rank) { return rank->steps.last_ended(); }},
           {"summary_only", "", &RankSummary::summary_only},
           {"steps_missed", "", &RankSummary::steps_missed},
           {"ended", "state", Unit::kText, "", [](const auto* rank) { return RunEndingName(rank->ending); },
            [](const auto* rank) { return StateText(*rank); }},
           {"last_event_realtime_ns", "", &RankSummary::last_realtime_ns},
           {"total_events", "",
            [](const auto* rank) { return Datum::If(rank->events != 0 || rank->events_before == 0, rank->events); }},
           {"lost_events", "", &RankSummary::lost_events},
           {"damage", "", &RankSummary::damage},
           {"file", "file", Unit::kText, "", &RankSummary::file,
            [](const auto* rank) { return FileName(rank->file); }}})
    columns.push_back(std::move(column));
  return columns;
}

// Machines get all; people those furthest from the median, by rank; what was not compared comes first among them.
void AddRankRows(const RanksReport& report, size_t top, Document* answer) {
  using Ranks = std::vector<const RankSummary*>;
  const RanksVerdict& verdict = report.verdict;
  auto all = std::make_shared<Ranks>();
  for (const RankSummary& rank : report.job.ranks) all->push_back(&rank);
  auto ranks = std::make_shared<Ranks>(*all);
  answer->Table("ranks", kRank, RankColumns(verdict), std::shared_ptr<const Ranks>(all),
                {.layout = JsonLayout::kOneLine, .is_shown = false});
  if (ranks->empty()) return;
  const auto apart = [&](const RankSummary* rank) {
    const RankValue* const value = ValueOf(*rank, verdict);
    if (value == nullptr) return UINT64_MAX;
    return std::max(value->bytes, verdict.median) - std::min(value->bytes, verdict.median);
  };
  std::stable_sort(ranks->begin(), ranks->end(), [&](const auto* a, const auto* b) { return apart(a) > apart(b); });
  ranks->resize(Shown(all->size(), top));
  std::sort(ranks->begin(), ranks->end(), [](const auto* a, const auto* b) { return a->rank < b->rank; });
  const size_t left_out = all->size() - ranks->size();
  answer->Heading(absl::StrCat("Ranks, memory ", MomentText(verdict)));
  answer->Table("", "", RankColumns(verdict), std::shared_ptr<const Ranks>(ranks), {});
  AddLeftOut(left_out, answer);
}

std::vector<AnswerColumn<StepRow>> StepRowColumns() {
  return {
      {"first_step", "step", Unit::kNumber, "", &StepRow::first,
       [](const StepRow& step) {
         return step.first == step.last ? absl::StrCat(step.first) : absl::StrCat(step.first, "-", step.last);
       }},
      {"last_step", "", &StepRow::last},
      {"min_bytes", "least", Unit::kAlignedBytes, "", &StepRow::least},
      {"median_bytes", "median", Unit::kAlignedBytes, "", &StepRow::median},
      {"max_bytes", "most", Unit::kAlignedBytes, "", &StepRow::most},
      {"", "max/median", Unit::kNumber, "", nullptr,
       [](const StepRow& step) {
         return absl::StrFormat(
             "%.3f", step.median == 0 ? 1 : static_cast<double>(step.most) / static_cast<double>(step.median));
       }},
      {"max_rank", "most in rank", Unit::kNumber,
       "with `--by step`, `steps` has an object for each step: `first_step`, `last_step`, `min_bytes`, "
       "`median_bytes`, `max_bytes`, the rank with the most, and how many `ranks` completed it",
       &StepRow::most_rank},
      {"ranks", "ranks", Unit::kNumber, "", &StepRow::ranks},
  };
}

// People get the last ones: what grows shows there.
void AddSteps(const RanksReport& report, size_t top, Document* answer) {
  const std::vector<StepRow>& steps = report.verdict.steps;
  answer->Table("steps", "", StepRowColumns(), steps, {.layout = JsonLayout::kOneLine, .is_shown = false});
  answer->Heading("Peaks by step");
  if (steps.empty()) return answer->Line("  no training steps were seen in these traces");
  const size_t shown = Shown(steps.size(), top);
  answer->Table("", "", StepRowColumns(), steps, {.first = steps.size() - shown});
  AddLeftOut(steps.size() - shown, answer);
}

void AddDamage(const Job& job, size_t top, Document* answer) {
  size_t damaged = 0;
  for (const RankSummary& rank : job.ranks) {
    if (rank.damage.empty()) continue;
    if (top == 0 || damaged++ < top)
      answer->Paragraph("damage  ", absl::StrCat("rank ", rank.rank, ", ", rank.file, ": ", rank.damage),
                        Tone::kWarning);
  }
}

void AddOtherGpus(const Job& job, Document* answer) {
  for (const RankSummary& rank : job.ranks) {
    for (const auto& [device, bytes] : rank.other_devices)
      answer->Paragraph("note  ", absl::StrCat("rank ", rank.rank, " also has ", FormatBytes(bytes), " on GPU ", device,
                                               ", beside its own GPU ", rank.device));
  }
}

void AddNext(const RanksReport& report, Document* answer) {
  if (report.verdict.deviations.empty()) return;
  const Deviation& worst = report.verdict.deviations.front();
  if (!worst.without_trace.empty()) return;
  const auto file = [&](int rank) {
    const auto found = std::find_if(report.job.ranks.begin(), report.job.ranks.end(),
                                    [&](const RankSummary& each) { return each.rank == rank; });
    return TraceArgument(found->file);
  };
  answer->Paragraph("  ", absl::StrCat("Next: gpumemshim diff ", file(worst.compared_to), " ", file(worst.compared),
                                       worst.moment == "peak" ? ""
                                                              : absl::StrCat(" --from '", worst.moment_to, "' --to '",
                                                                             worst.moment, "'")));
}

}  // namespace

Document RanksAnswer(const RanksReport& report, const RanksOptions& options) {
  Document answer;
  AddRanksFields(report, &answer);
  const bool is_fine = RanksDoubts(report).empty();
  answer.Paragraph("", RanksHeadline(report), is_fine ? Tone::kHeading : Tone::kWarning);
  answer.Gap();
  AddJob(report, &answer);
  AddDeviations(report, options.top, &answer);
  AddFirstOom(report, options.top, &answer);
  AddRankRows(report, options.top, &answer);
  if (options.by_step) AddSteps(report, options.top, &answer);
  if (!report.job.others.empty()) {
    answer.Heading("Traces that were left out");
    const size_t shown = Shown(report.job.others.size(), options.top);
    for (size_t i = 0; i < shown; ++i)
      answer.Line(absl::StrCat("  ", report.job.others[i].file, ": ", report.job.others[i].text));
    AddLeftOut(report.job.others.size() - shown, &answer);
  }
  answer.Gap();
  AddDamage(report.job, options.top, &answer);
  AddOtherGpus(report.job, &answer);
  AddNext(report, &answer);
  return answer;
}

}  // namespace gpumem
