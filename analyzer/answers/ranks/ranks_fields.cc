// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <vector>

#include "answers/ranks/ranks_report.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

Datum Numbers(const std::vector<int>& numbers) {
  return Datum::List({numbers.begin(), numbers.end()}, JsonLayout::kOneLine);
}

Datum Known(int number) { return Datum::If(number >= 0, number); }

void AddJobFields(const RanksReport& report, Document* answer) {
  constexpr char kJob[] =
      "of the job; the id is the launcher's (\"\" = none), expected is the world size, null = not known";
  constexpr char kNumbers[] = "numbers of ranks; not compared: without GPU memory, or without that step";
  const Job& job = report.job;
  answer->Field("program", job.key.program, kJob);
  answer->Field("job_id", job.key.id, kJob);
  answer->Field("expected_ranks", Known(job.expected), kJob);
  answer->Field("present_ranks", job.ranks.size(), "how many ranks have a trace");
  answer->Field("missing_ranks", Numbers(job.missing), kNumbers);
  answer->Field("damaged_ranks", Numbers(DamagedRanks(job)), kNumbers);
  answer->Field("running_ranks", Numbers(report.verdict.running), kNumbers);
  answer->Field("not_compared_ranks", Numbers(report.verdict.not_compared), kNumbers);
  answer->Field("summary_only_ranks", Numbers(SummaryOnlyRanks(job)), "ranks that kept no trace (`GPUMEMSHIM_RANKS`)");
  answer->Field("transient_ranks", Numbers(report.verdict.transients),
                "unlike the others in the compared step, but not in most steps");
  answer->Table("other_traces",
                "traces that were left out: `file`, `why` (`unreadable`, `other_job`, `earlier_attempt`, "
                "`same_process`, `child`, `no_rank`), `rank`, `text`",
                std::vector<AnswerColumn<OtherTrace>>{
                    {"file", "", &OtherTrace::file},
                    {"why", "", [](const OtherTrace& other) { return OtherTraceName(other.why); }},
                    {"rank", "", [](const OtherTrace& other) { return Known(other.rank); }},
                    {"text", "", &OtherTrace::text}},
                job.others, {.layout = JsonLayout::kOneLine});
}

void AddBalanceFields(const RanksVerdict& verdict, Document* answer) {
  constexpr char kWhat[] = "what was compared: `allocated`, or `cuda_memory` (reserved, other libraries, context)";
  constexpr char kWhen[] = "`step` or `peak` (of the run); the step, several where a run has more than 512";
  constexpr char kBytes[] = "of the compared ranks; skew is max minus min";
  constexpr char kRatio[] = "1 = all hold the same";
  constexpr char kParts[] = "the rank that others are compared with; how many parts of the model there are";
  answer->Field("measure", MeasureName(verdict.measure), kWhat);
  answer->Field("subject", verdict.subject == RanksSubject::kAllocated ? "allocated" : "cuda_memory", kWhat);
  answer->Field("moment", verdict.by_step ? "step" : "peak", kWhen);
  answer->Field("first_step", verdict.first_step, kWhen);
  answer->Field("last_step", verdict.last_step, kWhen);
  answer->Field("min_bytes", verdict.least, kBytes);
  answer->Field("median_bytes", verdict.median, kBytes);
  answer->Field("mean_bytes", verdict.mean, kBytes);
  answer->Field("max_bytes", verdict.most, kBytes);
  answer->Field("skew_bytes", verdict.most - verdict.least, kBytes);
  answer->Field("max_over_mean", verdict.MaxOverMean(), kRatio);
  answer->Field("max_over_median", verdict.MaxOverMedian(), kRatio);
  answer->Field("median_rank", Known(verdict.median_rank), kParts);
  answer->Field("model_parts", verdict.parts, kParts);
}

Datum CauseDatum(const Cause& cause) {
  if (cause.kind == CauseKind::kNone) return {};  // not looked for
  return Datum::Object(
      {{"kind", CauseKindName(cause.kind)}, {"text", cause.text}, {"explained_bytes", cause.explained}},
      JsonLayout::kOneLine);
}

void AddDeviationFields(const RanksVerdict& verdict, Document* answer) {
  constexpr char kPair[] = "of that pair: `rank` with `bytes` at `moment`, the other one with these";
  answer->Table(
      "deviations",
      "ranks unlike the median rank, largest difference first: `ranks`, `by_design`, `delta_bytes`, `min_bytes`, "
      "`max_bytes`, and the pair that was compared for the `cause` (as in [diff](#diff), null = not looked for; "
      "unknown if one of the two is in `without_trace`: it kept a summary alone)",
      std::vector<AnswerColumn<Deviation>>{
          {"ranks", "", [](const Deviation& each) { return Numbers(each.ranks); }},
          {"without_trace", "", [](const Deviation& each) { return Numbers(each.without_trace); }},
          {"by_design", "", &Deviation::by_design},
          {"delta_bytes", "", &Deviation::delta},
          {"min_bytes", "", &Deviation::least},
          {"max_bytes", "", &Deviation::most},
          {"rank", "", &Deviation::compared},
          {"compared_to_rank", kPair, &Deviation::compared_to},
          {"bytes", "", &Deviation::bytes},
          {"compared_to_bytes", kPair, &Deviation::compared_to_bytes},
          {"moment", "", &Deviation::moment},
          {"compared_to_moment", kPair, &Deviation::moment_to},
          {"cause", "", [](const Deviation& each) { return CauseDatum(each.cause); }}},
      verdict.deviations, {});
}

Datum FirstOomDatum(const std::optional<FirstOom>& oom) {
  if (!oom) return {};
  std::vector<Datum> others;
  for (const RankValue& value : oom->others)
    others.push_back(Datum::Object({{"rank", value.rank}, {"bytes", value.bytes}}, JsonLayout::kOneLine));
  return Datum::Object({{"rank", oom->rank},
                        {"realtime_ns", oom->realtime_ns},
                        {"step", oom->step},
                        {"requested_bytes", oom->refused},
                        {"allocated_bytes", oom->allocated},
                        {"others", Datum::List(std::move(others))}});
}

void AddEventFields(const RanksVerdict& verdict, Document* answer) {
  answer->Table("stragglers",
                "ranks behind the median rank, or killed: `rank`, `last_step`, `steps_behind`, `ended` (as in diff), "
                "`last_event_realtime_ns`",
                std::vector<AnswerColumn<Straggler>>{
                    {"rank", "", &Straggler::rank},
                    {"last_step", "", &Straggler::last_step},
                    {"steps_behind", "", &Straggler::behind},
                    {"ended", "", [](const Straggler& each) { return RunEndingName(each.ending); }},
                    {"last_event_realtime_ns", "", &Straggler::last_realtime_ns}},
                verdict.stragglers, {.layout = JsonLayout::kOneLine});
  answer->Field("first_oom", FirstOomDatum(verdict.first_oom),
                "null, or the rank that ran out of memory first: `rank`, `realtime_ns`, `step`, `requested_bytes`, "
                "`allocated_bytes`, `others`: what the other ranks held then");
}

}  // namespace

void AddRanksFields(const RanksReport& report, Document* answer) {
  const std::vector<std::string> doubts = RanksDoubts(report);
  constexpr char kSentence[] = "the sentence, with the doubts before it, as in [diff](#diff)";
  answer->Field("schema_version", kJsonSchemaVersion, "");
  answer->Field("command", "ranks", "");
  answer->Field("headline", RanksHeadline(report), kSentence);
  answer->Field("doubts", Datum::List({doubts.begin(), doubts.end()}, JsonLayout::kOneLine), kSentence);
  answer->Field("verdict", RanksKindName(report.verdict.kind),
                "`balanced`, `by_design` (ranks differ as the parts of the model that they hold do), `uneven`, "
                "`nothing` (fewer than two ranks can be compared)");
  AddJobFields(report, answer);
  AddBalanceFields(report.verdict, answer);
  AddDeviationFields(report.verdict, answer);
  AddEventFields(report.verdict, answer);
}

}  // namespace gpumem
