// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The answer of `gpumemshim forecast`.

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "answers/outlook/outlook.h"
#include "answers/report/leak_words.h"
#include "base/format.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

// Of a number of steps or bytes that may not be known, or never come.
Datum NumberIf(bool is_known, double value) {
  return is_known && std::isfinite(value) ? Datum(static_cast<uint64_t>(std::llround(value))) : Datum();
}

absl::string_view PhaseWords(Phase phase) {
  if (phase == Phase::kSawtooth) return "a sawtooth";
  if (phase == Phase::kStaircase) return "a staircase";
  return phase == Phase::kWarmUp ? "few so far" : PhaseName(phase);
}

void AddFields(const Outlook& outlook, Document* answer) {
  constexpr char kLooked[] = "how many complete steps were looked at; the number of the last";
  constexpr char kLimit[] = "what `level_bytes` can be; what of the GPU it cannot have";
  constexpr char kGrowing[] = "of the stretch that grows";
  constexpr char kUntil[] = "from the last step to the limit; null where none is reached";
  const Forecast& forecast = outlook.forecast;
  const bool reaches = forecast.kind == ForecastKind::kReaches || forecast.kind == ForecastKind::kFar;
  answer->Field("device", Datum::If(outlook.device >= 0, outlook.device), "null = no GPU memory");
  answer->Field("sentence", outlook.sentence, "the answer");
  answer->Field("sure", !outlook.misses_events, "false where events are missing from the trace");
  answer->Field("kind", ForecastKindName(forecast.kind),
                "`too_short`, `steady`, `slowing`, `far` (it grows, and has longer to go than 0.4 of the time that it "
                "has grown), `reaches`");
  answer->Field("phase", PhaseName(outlook.phase),
                "what the peaks look like: `warm-up` (too few), `steady`, `sawtooth`, `staircase`, `growing`, "
                "`settling`");
  answer->Field("risk", RiskLevelName(outlook.risk),
                "`low`, `medium`, `high`, `critical` ([forecast.md](forecast.md))");
  answer->Field("steps", outlook.steps, kLooked);
  answer->Field("last_step", outlook.last_step, kLooked);
  answer->Field("level_bytes", outlook.level, "allocated at the last step's peak");
  answer->Field("counts_other", outlook.counts_beside,
                "true where other CUDA memory of the program grows: it is counted with PyTorch's blocks");
  answer->Field("limit_low_bytes", static_cast<uint64_t>(outlook.limit.low), kLimit);
  answer->Field("limit_high_bytes", static_cast<uint64_t>(outlook.limit.high), kLimit);
  answer->Field("overhead_bytes", outlook.overhead, kLimit);
  answer->Field("growing_steps", forecast.per_step > 0 ? outlook.steps - forecast.grows_since : uint64_t{0}, kGrowing);
  answer->Field("bytes_per_step", forecast.per_step, kGrowing);
  answer->Field("confidence", forecast.confidence, kGrowing);
  answer->Field("earliest_steps", NumberIf(reaches, forecast.earliest), kUntil);
  answer->Field("likely_steps", NumberIf(reaches, forecast.likely), kUntil);
  answer->Field("latest_steps", NumberIf(reaches, forecast.latest), kUntil);
  answer->Field("range_share", Datum::If(reaches && std::isfinite(forecast.latest), kRangeShare),
                "how many of such ranges hold; null where there is none");
  answer->Field("step_ns", static_cast<uint64_t>(outlook.step_ns), "median of the last 50 steps");
  answer->Field("settles_at_bytes", NumberIf(forecast.kind == ForecastKind::kSlowing, forecast.settles_at),
                "where growth that slows down ends; else null");
  answer->Field("cause", outlook.cause, "the line that grows most; empty = none does");
}

void AddDevice(const Outlook& outlook, Document* answer) {
  if (outlook.limit.high <= 0 || outlook.steps == 0) return;
  const Forecast& forecast = outlook.forecast;
  answer->Line(
      absl::StrCat("  risk    ", RiskLevelName(outlook.risk), "; the peaks of steps are ", PhaseWords(outlook.phase)));
  answer->Line(absl::StrCat("  level   ", FormatBytes(outlook.level),
                            outlook.counts_beside ? " of CUDA memory" : " allocated", " at the peak of step ",
                            FormatCount(outlook.last_step)));
  const auto low = static_cast<uint64_t>(outlook.limit.low), high = static_cast<uint64_t>(outlook.limit.high);
  answer->Line(absl::StrCat("  limit   ", low == high ? "" : absl::StrCat(FormatBytes(low), " to "), FormatBytes(high),
                            outlook.counts_beside ? " for this program's CUDA memory; " : " for PyTorch's blocks; ",
                            FormatBytes(outlook.overhead), " of the GPU is other memory"));
  if (forecast.per_step <= 0) return;
  answer->Line(absl::StrCat("  growth  ", RateText(forecast.per_step), " a step over the last ",
                            FormatCount(outlook.steps - forecast.grows_since), " steps; ",
                            FormatPercent(forecast.confidence), " sure that it grows"));
}

Document HostFields(const Outlook& host) {
  Document fields;
  if (host.sentence.empty()) return fields;
  const bool reaches = host.forecast.kind == ForecastKind::kReaches || host.forecast.kind == ForecastKind::kFar;
  fields.Field("sentence", host.sentence, "the answer");
  fields.Field("kind", ForecastKindName(host.forecast.kind), "as of the GPU");
  fields.Field("risk", RiskLevelName(host.risk), "as of the GPU");
  fields.Field("level_bytes", host.level, "of the lines that grow, at the last step");
  fields.Field("limit_bytes", static_cast<uint64_t>(host.limit.high),
               "that, and what RAM was available when least was; 0 = not known");
  fields.Field("bytes_per_step", host.forecast.per_step, "of the stretch that grows");
  fields.Field("likely_steps", NumberIf(reaches, host.forecast.likely), "from the last step to the limit");
  return fields;
}

}  // namespace

Document OutlookAnswer(const Outlook& outlook, const Outlook& host) {
  Document answer;
  AddFields(outlook, &answer);
  answer.Object("host", "pinned and managed memory that grows, in the machine's RAM; empty where none of it does",
                HostFields(host));
  answer.Gap();
  const std::string of = outlook.device < 0 ? "Forecast" : absl::StrCat("Forecast for ", DeviceLabel(outlook.device));
  answer.Paragraph(absl::StrCat(of, "  "), outlook.sentence, Tone::kHeading);
  AddDevice(outlook, &answer);
  if (host.sentence.empty()) return answer;
  answer.Gap();
  answer.Paragraph("Pinned and managed memory  ", host.sentence, Tone::kHeading);
  answer.Line(absl::StrCat("  risk    ", RiskLevelName(host.risk), "; the machine has room for ",
                           FormatBytes(static_cast<uint64_t>(host.limit.high)), " of it"));
  return answer;
}

}  // namespace gpumem
