// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>

#include "answers/ranks/ranks_report.h"
#include "base/json_writer.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

void WriteNumbers(absl::string_view key, const std::vector<int>& numbers, JsonWriter* json) {
  json->Key(key);
  json->BeginArray(JsonLayout::kOneLine);
  for (const int number : numbers) json->Value(number);
  json->EndArray();
}

void WriteKnown(absl::string_view key, int number, JsonWriter* json) {
  json->Key(key);
  number < 0 ? json->Null() : json->Value(number);
}

void WriteJob(const RanksReport& report, JsonWriter* json) {
  const Job& job = report.job;
  json->Field("program", job.key.program);
  json->Field("job_id", job.key.id);
  WriteKnown("expected_ranks", job.expected, json);
  json->Field("present_ranks", job.ranks.size());
  WriteNumbers("missing_ranks", job.missing, json);
  std::vector<int> damaged;
  for (const RankSummary& rank : job.ranks) {
    if (!rank.damage.empty()) damaged.push_back(rank.rank);
  }
  WriteNumbers("damaged_ranks", damaged, json);
  WriteNumbers("summary_only_ranks", SummaryOnlyRanks(job), json);
  WriteNumbers("running_ranks", report.verdict.running, json);
  WriteNumbers("transient_ranks", report.verdict.transients, json);
  WriteNumbers("not_compared_ranks", report.verdict.not_compared, json);
  json->Key("other_traces");
  json->BeginArray();
  for (const OtherTrace& other : job.others) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("file", other.file);
    json->Field("why", OtherTraceName(other.why));
    WriteKnown("rank", other.rank, json);
    json->Field("text", other.text);
    json->EndObject();
  }
  json->EndArray();
}

void WriteBalance(const RanksVerdict& verdict, JsonWriter* json) {
  json->Field("measure", MeasureName(verdict.measure));
  json->Field("subject", verdict.subject == RanksSubject::kAllocated ? "allocated" : "cuda_memory");
  json->Field("moment", verdict.by_step ? "step" : "peak");
  json->Field("first_step", verdict.first_step);
  json->Field("last_step", verdict.last_step);
  json->Field("min_bytes", verdict.least);
  json->Field("median_bytes", verdict.median);
  json->Field("mean_bytes", verdict.mean);
  json->Field("max_bytes", verdict.most);
  json->Field("skew_bytes", verdict.most - verdict.least);
  json->Field("max_over_mean", verdict.MaxOverMean());
  json->Field("max_over_median", verdict.MaxOverMedian());
  WriteKnown("median_rank", verdict.median_rank, json);
  json->Field("model_parts", verdict.parts);
}

void WriteDeviations(const RanksVerdict& verdict, JsonWriter* json) {
  json->Key("deviations");
  json->BeginArray();
  for (const Deviation& each : verdict.deviations) {
    json->BeginObject();
    WriteNumbers("ranks", each.ranks, json);
    WriteNumbers("without_trace", each.without_trace, json);
    json->Field("by_design", each.by_design);
    json->Field("delta_bytes", each.delta());
    json->Field("min_bytes", each.least);
    json->Field("max_bytes", each.most);
    json->Field("rank", each.compared);
    json->Field("compared_to_rank", each.compared_to);
    json->Field("bytes", each.bytes);
    json->Field("compared_to_bytes", each.compared_to_bytes);
    json->Field("moment", each.moment);
    json->Field("compared_to_moment", each.moment_to);
    json->Key("cause");
    if (each.cause.kind == CauseKind::kNone) {
      json->Null();  // not looked for
    } else {
      json->BeginObject(JsonLayout::kOneLine);
      json->Field("kind", CauseKindName(each.cause.kind));
      json->Field("text", each.cause.text);
      json->Field("explained_bytes", each.cause.explained);
      json->EndObject();
    }
    json->EndObject();
  }
  json->EndArray();
}

void WriteEvents(const RanksVerdict& verdict, JsonWriter* json) {
  json->Key("stragglers");
  json->BeginArray();
  for (const Straggler& each : verdict.stragglers) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("rank", each.rank);
    json->Field("last_step", each.last_step);
    json->Field("steps_behind", each.behind);
    json->Field("ended", RunEndingName(each.ending));
    json->Field("last_event_realtime_ns", each.last_realtime_ns);
    json->EndObject();
  }
  json->EndArray();
  json->Key("first_oom");
  if (!verdict.first_oom) {
    json->Null();
    return;
  }
  json->BeginObject();
  json->Field("rank", verdict.first_oom->rank);
  json->Field("realtime_ns", verdict.first_oom->realtime_ns);
  json->Field("step", verdict.first_oom->step);
  json->Field("requested_bytes", verdict.first_oom->refused);
  json->Field("allocated_bytes", verdict.first_oom->allocated);
  json->Key("others");
  json->BeginArray();
  for (const RankValue& value : verdict.first_oom->others) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("rank", value.rank);
    json->Field("bytes", value.bytes);
    json->EndObject();
  }
  json->EndArray();
  json->EndObject();
}

void WriteRank(const RankSummary& rank, const RanksVerdict& verdict, JsonWriter* json) {
  const auto value = std::find_if(verdict.values.begin(), verdict.values.end(),
                                  [&](const RankValue& each) { return each.rank == rank.rank; });
  json->BeginObject(JsonLayout::kOneLine);
  json->Field("rank", rank.rank);
  json->Field("rank_of_name", rank.rank_of_name);
  WriteKnown("local_rank", rank.local_rank, json);
  json->Field("hostname", rank.hostname);
  json->Key("roles");
  json->BeginArray(JsonLayout::kOneLine);
  for (const RankRole& role : rank.roles) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("name", role.name);
    json->Field("rank", role.rank);
    json->Field("size", role.size);
    json->EndObject();
  }
  json->EndArray();
  json->Field("pid", rank.pid);
  json->Field("file", rank.file);
  WriteKnown("device", rank.device, json);
  json->Key("bytes");
  value == verdict.values.end() ? json->Null() : json->Value(value->bytes);
  json->Field("peak_allocated_bytes", rank.peak_allocated);
  json->Field("peak_reserved_bytes", rank.peak_reserved);
  json->Field("peak_total_bytes", rank.peak_total);
  json->Field("peak_bound", PeakBoundName(rank.Bound()));
  json->Field("context_bytes", rank.context);
  json->Field("communicator_bytes", rank.communicator_bytes);
  json->Key("categories");
  json->BeginObject(JsonLayout::kOneLine);
  for (size_t i = 0; i < kCategories; ++i) {
    if (rank.categories[i] > 0) json->Field(CategoryName(static_cast<Category>(i)), rank.categories[i]);
  }
  json->EndObject();
  json->Key("other_devices");
  json->BeginArray(JsonLayout::kOneLine);
  for (const auto& [device, bytes] : rank.other_devices) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("device", device);
    json->Field("bytes", bytes);
    json->EndObject();
  }
  json->EndArray();
  json->Field("steps", rank.steps.complete());
  json->Field("last_step", rank.steps.last_ended());
  json->Field("summary_only", rank.summary_only);
  json->Field("steps_missed", rank.steps_missed);
  json->Field("ended", RunEndingName(rank.ending));
  json->Field("last_event_realtime_ns", rank.last_realtime_ns);
  json->Key("total_events");
  rank.events == 0 && rank.events_before > 0 ? json->Null() : json->Value(rank.events);
  json->Field("lost_events", rank.lost_events);
  json->Field("damage", rank.damage);
  json->EndObject();
}

void WriteSteps(const RanksVerdict& verdict, JsonWriter* json) {
  json->Key("steps");
  json->BeginArray();
  for (const StepRow& step : verdict.steps) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("first_step", step.first);
    json->Field("last_step", step.last);
    json->Field("min_bytes", step.least);
    json->Field("median_bytes", step.median);
    json->Field("max_bytes", step.most);
    json->Field("max_rank", step.most_rank);
    json->Field("ranks", step.ranks);
    json->EndObject();
  }
  json->EndArray();
}

}  // namespace

std::string RanksJson(const RanksReport& report, const RanksOptions& options) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  json.Field("schema_version", kJsonSchemaVersion);
  json.Field("command", "ranks");
  json.Field("headline", RanksHeadline(report));
  json.Field("verdict", RanksKindName(report.verdict.kind));
  json.Key("doubts");
  json.BeginArray(JsonLayout::kOneLine);
  for (const std::string& doubt : RanksDoubts(report)) json.Value(doubt);
  json.EndArray();
  WriteJob(report, &json);
  WriteBalance(report.verdict, &json);
  WriteDeviations(report.verdict, &json);
  WriteEvents(report.verdict, &json);
  json.Key("ranks");
  json.BeginArray();
  for (const RankSummary& rank : report.job.ranks) WriteRank(rank, report.verdict, &json);
  json.EndArray();
  if (options.by_step) WriteSteps(report.verdict, &json);
  json.EndObject();
  out += '\n';
  return out;
}

}  // namespace gpumem
