// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/explain/explain.h"
#include "answers/report/json_parts.h"
#include "base/json_writer.h"

namespace gpumem {

std::string ExplanationJson(const Explanation& explanation, const ReportInput& input) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  WriteJsonCommon("explain", input, &json);
  json.Key("device");
  explanation.device < 0 ? json.Null() : json.Value(explanation.device);
  json.Field("verdict", VerdictName(explanation.kind));
  json.Field("verdict_text", explanation.verdict);
  json.Field("headline", explanation.headline);
  json.Field("found", explanation.Count(CheckOutcome::kFound));
  json.Field("clear", explanation.Count(CheckOutcome::kClear));
  json.Field("unknown", explanation.Count(CheckOutcome::kUnknown));
  json.Key("checks");
  json.BeginArray();
  for (const Check& check : explanation.checks) {
    json.BeginObject();
    json.Field("id", check.id);
    json.Field("topic", CheckTopicName(check.topic));
    json.Field("question", check.question);
    json.Field("outcome", CheckOutcomeName(check.outcome));
    json.Field("evidence", check.evidence);
    json.Field("action", check.action);
    json.Field("saving_basis", SavingBasisName(check.saving.basis));
    json.Field("saving_bytes", check.saving.bytes);
    json.Field("saving_per_iteration", check.saving.per_iteration);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return out + "\n";
}

}  // namespace gpumem
