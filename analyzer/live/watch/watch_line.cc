// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/watch/watch_line.h"

#include <cmath>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "answers/outlook/outlook.h"
#include "answers/report/forecast_marks.h"
#include "base/format.h"
#include "base/json_writer.h"
#include "base/utf8.h"
#include "render/draw.h"

namespace gpumem {
namespace {

constexpr double kShownFrom = 120e9, kHalfADay = 43200e9, kYear = 3.2e16;  // nanoseconds
constexpr int kLongestMark = 900;                                          // characters; the recorder takes 1,024 bytes

void Begin(absl::string_view event, JsonWriter* json) {
  json->BeginObject(JsonLayout::kOneLine);
  json->Field("schema_version", kJsonSchemaVersion);
  json->Field("command", "forecast");
  json->Field("event", event);
}

void Process(const LiveProcess& process, JsonWriter* json) {
  json->Field("file", process.file);
  json->Field("program", process.process.program);
  json->Key("pid");
  process.process.pid != 0 ? json->Value(process.process.pid) : json->Null();
  json->Key("rank");
  process.process.rank >= 0 ? json->Value(process.process.rank) : json->Null();
}

std::string ClockTime(int64_t realtime_ns, const char* format = "%H:%M:%S") {
  const std::time_t seconds = realtime_ns / 1'000'000'000;
  std::tm local{};
  char text[32];
  if (localtime_r(&seconds, &local) == nullptr || std::strftime(text, sizeof text, format, &local) == 0) return "";
  return text;
}

// "; that is 14:43 to 14:57": of what is at least minutes away, with the date where that is half a day.
std::string TimeOfDay(const WatchWarning& warning) {
  const Forecast& forecast = warning.outlook.forecast;
  const double step_ns = warning.outlook.step_ns;
  if (!std::isfinite(forecast.latest) || forecast.latest * step_ns < kShownFrom || forecast.latest * step_ns > kYear)
    return "";
  const auto after = [&](double steps) {
    return ClockTime(warning.realtime_ns + static_cast<int64_t>(steps * step_ns),
                     forecast.latest * step_ns < kHalfADay ? "%H:%M" : "%Y-%m-%d %H:%M");
  };
  return absl::StrCat("; that is ", after(forecast.earliest), " to ", after(forecast.latest));
}

std::string Who(const LiveProcess& process) {
  std::string who = process.process.program;
  if (process.process.rank >= 0) absl::StrAppend(&who, " rank ", process.process.rank);
  return absl::StrCat(who, " pid ", process.process.pid);
}

}  // namespace

std::string WarningText(const WatchWarning& warning) {
  return absl::StrCat(ClockTime(warning.realtime_ns), "  ", Who(warning.process), "  GPU ", warning.outlook.device,
                      "  ", RiskLevelName(warning.outlook.risk), " risk: ", EscapeControls(warning.outlook.sentence),
                      TimeOfDay(warning), "\n");
}

std::string WarningJson(const WatchWarning& warning) {
  std::string out;
  JsonWriter json(&out);
  Begin("warning", &json);
  Process(warning.process, &json);
  json.Field("realtime_ns", warning.realtime_ns);
  json.Field("first", warning.is_first);
  WriteMembers(OutlookAnswer(warning.outlook), &json);
  json.EndObject();
  return out + "\n";
}

std::string WarningMark(const WatchWarning& warning) {
  const std::string text =
      absl::StrCat(kForecastWarning, " (", RiskLevelName(warning.outlook.risk), ", GPU ", warning.outlook.device,
                   ", step ", warning.outlook.last_step, ": ", warning.outlook.sentence);
  return absl::StrCat(TruncateEnd(EscapeControls(text), kLongestMark, "..."), ")");
}

std::vector<std::string> WarningVariables(const WatchWarning& warning) {
  const Outlook& outlook = warning.outlook;
  const auto seconds = static_cast<uint64_t>(std::llround(outlook.forecast.likely * outlook.step_ns / 1e9));
  return {absl::StrCat("GPUMEMSHIM_RISK=", RiskLevelName(outlook.risk)),
          absl::StrCat("GPUMEMSHIM_PID=", warning.process.process.pid),
          absl::StrCat("GPUMEMSHIM_DEVICE=", outlook.device),
          absl::StrCat("GPUMEMSHIM_STEP=", outlook.last_step),
          absl::StrCat("GPUMEMSHIM_SECONDS_LEFT=", seconds),
          absl::StrCat("GPUMEMSHIM_FIRST=", warning.is_first ? 1 : 0),
          absl::StrCat("GPUMEMSHIM_TRACE=", warning.process.file),
          absl::StrCat("GPUMEMSHIM_SENTENCE=", EscapeControls(outlook.sentence))};
}

std::string CallbackJson(const LiveProcess& process, const CallbackReport& report) {
  std::string out;
  JsonWriter json(&out);
  Begin("callback", &json);
  Process(process, &json);
  json.Field("action", report.action);
  json.Field("failed", !report.is_fine);
  json.Field("text", report.text);
  json.EndObject();
  return out + "\n";
}

std::string CallbackMark(const CallbackReport& report) {
  return absl::StrCat(kFailedCallback, " (", report.action, ": ", report.text, ")");
}

std::string EndText(const WatchTotals& totals) {
  if (totals.warnings == 0) return "";
  return absl::StrCat(FormatCountOf(totals.warnings, "warning", "warnings"), "; ",
                      FormatCountOf(totals.callbacks, "callback", "callbacks"), ", ", totals.failed_callbacks,
                      " failed\n");
}

std::string EndJson(const WatchTotals& totals) {
  std::string out;
  JsonWriter json(&out);
  Begin("end", &json);
  json.Field("warnings", totals.warnings);
  json.Field("callbacks", totals.callbacks);
  json.Field("failed_callbacks", totals.failed_callbacks);
  json.EndObject();
  return out + "\n";
}

}  // namespace gpumem
