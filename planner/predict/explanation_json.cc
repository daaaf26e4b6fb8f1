// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/explanation_page.h"

namespace gpumem::plan {
namespace {

void WriteReduction(const Reduction& reduction, JsonWriter* json) {
  json->BeginObject();
  json->Key("changes");
  json->BeginArray(JsonLayout::kOneLine);
  for (const std::string& change : reduction.changes) json->Value(change);
  json->EndArray();
  json->Field("text", reduction.text);
  json->Field("cost", CostName(reduction.cost));
  json->Field("cost_text", reduction.cost_text);
  json->Field("other_results", reduction.other_results);
  json->Field("applied", reduction.applied);
  json->Field("of", reduction.of);
  json->Field("why", reduction.why);
  json->Key("need_bytes");
  reduction.need.has_value() ? json->Value(*reduction.need) : json->Null();
  json->EndObject();
}

void WriteAll(absl::string_view key, const std::vector<Reduction>& reductions, JsonWriter* json) {
  json->Key(key);
  json->BeginArray();
  for (const Reduction& reduction : reductions) WriteReduction(reduction, json);
  json->EndArray();
}

void WriteOne(absl::string_view key, const std::optional<Reduction>& reduction, JsonWriter* json) {
  json->Key(key);
  reduction.has_value() ? WriteReduction(*reduction, json) : json->Null();
}

}  // namespace

absl::string_view CostName(ReductionCost cost) {
  switch (cost) {
    case ReductionCost::kNothing:
      return "nothing";
    case ReductionCost::kRecompute:
      return "recompute";
    case ReductionCost::kPieces:
      return "pieces";
    case ReductionCost::kTransfers:
      return "transfers";
    case ReductionCost::kRounding:
      return "rounding";
  }
  return "";
}

void WriteExplanation(const Forecast& forecast, JsonWriter* json) {
  if (!forecast.explanation.has_value()) return;
  const Explanation& explanation = *forecast.explanation;
  json->Key("explain");
  json->BeginObject();
  json->Field("goal_bytes", explanation.goal);
  json->Field("need_bytes", explanation.need);
  json->Field("open_bytes", explanation.room);
  json->Field("reached", explanation.reached());
  WriteOne("to_fit", explanation.to_fit, json);
  WriteOne("least", explanation.least, json);
  WriteAll("ways", explanation.ways, json);
  WriteAll("without_use", explanation.without_use, json);
  WriteAll("not_possible", explanation.not_possible, json);
  json->Field("runs", explanation.runs);
  json->Field("max_runs", explanation.max_runs);
  json->EndObject();
}

}  // namespace gpumem::plan
