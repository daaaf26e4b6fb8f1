// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/outlook/outlook_json.h"

#include <cmath>

#include "answers/report/json_parts.h"

namespace gpumem {
namespace {

// Of a number of steps or bytes that may not be known, or never come.
void WriteNumber(absl::string_view key, bool is_known, double value, JsonWriter* json) {
  json->Key(key);
  is_known&& std::isfinite(value) ? json->Value(static_cast<uint64_t>(std::llround(value))) : json->Null();
}

}  // namespace

void WriteOutlook(const Outlook& outlook, JsonWriter* json) {
  const Forecast& forecast = outlook.forecast;
  const bool reaches = forecast.kind == ForecastKind::kReaches || forecast.kind == ForecastKind::kFar;
  json->Key("device");
  outlook.device < 0 ? json->Null() : json->Value(outlook.device);
  json->Field("sentence", outlook.sentence);
  json->Field("sure", !outlook.misses_events);
  json->Field("kind", ForecastKindName(forecast.kind));
  json->Field("phase", PhaseName(outlook.phase));
  json->Field("risk", RiskLevelName(outlook.risk));
  json->Field("steps", outlook.steps);
  json->Field("last_step", outlook.last_step);
  json->Field("level_bytes", outlook.level);
  json->Field("limit_low_bytes", static_cast<uint64_t>(outlook.limit.low));
  json->Field("limit_high_bytes", static_cast<uint64_t>(outlook.limit.high));
  json->Field("overhead_bytes", outlook.overhead);
  json->Field("growing_steps", forecast.per_step > 0 ? outlook.steps - forecast.grows_since : uint64_t{0});
  json->Field("bytes_per_step", forecast.per_step);
  json->Field("confidence", forecast.confidence);
  WriteNumber("earliest_steps", reaches, forecast.earliest, json);
  WriteNumber("likely_steps", reaches, forecast.likely, json);
  WriteNumber("latest_steps", reaches, forecast.latest, json);
  json->Key("range_share");
  reaches&& std::isfinite(forecast.latest) ? json->Value(kRangeShare) : json->Null();
  json->Field("step_ns", static_cast<uint64_t>(outlook.step_ns));
  WriteNumber("settles_at_bytes", forecast.kind == ForecastKind::kSlowing, forecast.settles_at, json);
  json->Field("cause", outlook.cause);
}

std::string OutlookJson(const Outlook& outlook, const ReportInput& input) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  WriteJsonCommon("forecast", input, &json);
  WriteOutlook(outlook, &json);
  json.EndObject();
  return out + "\n";
}

}  // namespace gpumem
