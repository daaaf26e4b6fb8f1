// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/outlook/outlook.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "answers/oom/oom_story.h"
#include "answers/report/leak_words.h"
#include "answers/report/verdict.h"
#include "base/format.h"
#include "ledger/attribution/attribution.h"
#include "ledger/leaks/leaks.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

constexpr size_t kStepsForPace = 50;
// Steps left, of the steps that it has been growing.
constexpr double kCritical = 0.1, kHigh = 0.3;

std::string StepNumber(const Outlook& outlook, double after) {
  return FormatCount(outlook.last_step + static_cast<uint64_t>(std::llround(after)));
}

std::string TimeOf(const Outlook& outlook, double steps) {
  return FormatTime(static_cast<uint64_t>(std::llround(steps * outlook.step_ns)));
}

std::vector<double> Durations(const std::vector<AttributedStep>& steps) {
  std::vector<double> took;
  for (const AttributedStep& each : steps)
    took.push_back(static_cast<double>(each.step.end.time_ns - each.step.start.time_ns));
  return took;
}

// What of the device PyTorch cannot have: this process's other memory, contexts, other processes.
uint64_t OverheadOf(const DeviceAnalysis& device) {
  const MemoryBreakdown& end = device.breakdown_at_end;
  uint64_t own = device.end.other;
  if (end.any && end.process != kNotStated && end.process > end.values.reserved)
    own = end.process - end.values.reserved;
  uint64_t others = 0;
  for (const Neighbour& each : device.use.neighbours) others += each.last;
  return own + others;
}

ForecastLimit LimitOf(const DeviceAnalysis& device, uint64_t overhead) {
  if (device.capacity <= overhead) return {};
  const auto high = static_cast<double>(device.capacity - overhead);
  const FragmentationPoint& point = device.fragmentation.at_peak;
  const double scattered = FreeSpaceOf(point) == FreeSpace::kScattered ? static_cast<double>(point.free) : 0;
  return {std::max(0.0, high - scattered), high};
}

// Of the stretch that grows. The free space inside segments is not counted: it was there and was not used.
double RoomAtThisRatio(const StepLevels& levels, size_t since, double most_reserved) {
  const double allocated = levels.allocated.back() - levels.allocated[since];
  const double reserved = levels.reserved.back() - levels.reserved[since];
  if (allocated <= 0 || reserved < allocated) return most_reserved;
  return levels.allocated.back() + std::max(0.0, most_reserved - levels.reserved.back()) * allocated / reserved;
}

std::string CauseOf(const ReportInput& input, int device) {
  if (input.leaks == nullptr) return "";
  const LeakDevice* const found = LeaksOf(*input.leaks, device);
  for (size_t i = 0; found != nullptr && i < found->rows.size(); ++i) {
    const LeakRow& row = found->rows[i];
    if (row.status != LeakStatus::kGrowing) continue;
    return absl::StrCat(LeakSite(row), " keeps ", RateText(row.bytes_per_iteration), " more each ",
                        IterationWord(*input.leaks, row));
  }
  return "";
}

RiskLevel RiskOf(const Forecast& forecast, uint64_t steps) {
  if (forecast.kind == ForecastKind::kFar) return RiskLevel::kMedium;
  if (forecast.kind != ForecastKind::kReaches) return RiskLevel::kLow;
  const double seen = static_cast<double>(steps - forecast.grows_since);
  if (forecast.earliest <= kCritical * seen) return RiskLevel::kCritical;
  return forecast.earliest <= kHigh * seen ? RiskLevel::kHigh : RiskLevel::kMedium;
}

std::string Reaches(const Outlook& outlook) {
  const Forecast& forecast = outlook.forecast;
  const bool has_end = std::isfinite(forecast.latest);
  std::string text = absl::StrCat("at this rate out of memory in ", TimeOf(outlook, forecast.earliest), " to ",
                                  has_end ? TimeOf(outlook, forecast.latest) : "a time not known", " (step ",
                                  StepNumber(outlook, forecast.earliest), has_end ? " to " : " or later",
                                  has_end ? StepNumber(outlook, forecast.latest) : "", ")",
                                  has_end ? absl::StrCat(", ", FormatPercent(kRangeShare), " sure") : "");
  if (!outlook.has_cause) return text;
  absl::StrAppend(&text, outlook.cause.empty()
                             ? ": the peaks of steps grow, but no line keeps more from step to step (longer inputs?)"
                             : absl::StrCat(", because ", outlook.cause));
  return text;
}

std::string Foretold(const Outlook& outlook) {
  const Forecast& forecast = outlook.forecast;
  const std::string rate = absl::StrCat(RateText(forecast.per_step), " a step");
  switch (forecast.kind) {
    case ForecastKind::kTooShort:
      return absl::StrCat("not known: ", FormatCountOf(outlook.steps, "training step", "training steps"), ", and ",
                          kLeastSteps, " are needed");
    case ForecastKind::kSteady:
      return absl::StrCat("no growth that goes on, in ", FormatCountOf(outlook.steps, "step", "steps"));
    case ForecastKind::kSlowing:
      return absl::StrCat(
          "the peaks of steps grow ever less",
          std::isfinite(forecast.settles_at)
              ? absl::StrCat(", and settle near ", FormatBytes(static_cast<uint64_t>(forecast.settles_at)))
              : "");
    case ForecastKind::kFar:
      return absl::StrCat(
          "the peaks of steps grow by ", rate, "; there is room for ",
          FormatCount(static_cast<uint64_t>(forecast.likely)), " more steps at this rate. It has grown for ",
          FormatCountOf(outlook.steps - forecast.grows_since, "step", "steps"), ", too few to say that it goes on",
          outlook.cause.empty() ? "" : absl::StrCat("; ", outlook.cause));
    case ForecastKind::kReaches:
      return Reaches(outlook);
  }
  return "";
}

}  // namespace

absl::string_view RiskLevelName(RiskLevel risk) {
  constexpr std::array<absl::string_view, 4> kNames = {"low", "medium", "high", "critical"};
  return kNames[static_cast<size_t>(risk)];
}

std::string SentenceOf(const Outlook& outlook) {
  const bool is_unsure = outlook.misses_events && outlook.forecast.kind != ForecastKind::kTooShort;
  return absl::StrCat(is_unsure ? "not sure, events are missing: " : "", Foretold(outlook));
}

double StepPace(std::vector<double> took) {
  if (took.size() > kStepsForPace) took.erase(took.begin(), took.end() - kStepsForPace);
  if (took.empty()) return 0;
  std::nth_element(took.begin(), took.begin() + static_cast<std::ptrdiff_t>(took.size() / 2), took.end());
  return took[took.size() / 2];
}

void JudgeOutlook(const StepLevels& levels, Outlook* outlook) {
  if (outlook->limit.high <= 0) {
    outlook->sentence = "not known: this trace does not say how much memory the GPU has";
    return;
  }
  outlook->forecast = ForecastOf(levels.allocated, outlook->limit);
  if (outlook->forecast.per_step > 0) {
    const double room = RoomAtThisRatio(levels, outlook->forecast.grows_since, outlook->limit.high);
    outlook->limit.low = std::min(outlook->limit.low, room);
    outlook->forecast = ForecastOf(levels.allocated, outlook->limit);
  }
  outlook->phase = PhaseOf(levels.allocated, outlook->forecast);
  outlook->risk = RiskOf(outlook->forecast, outlook->steps);
  outlook->sentence = SentenceOf(*outlook);
}

Outlook OutlookOf(const ReportInput& input) {
  Outlook outlook;
  const DeviceAnalysis* const device = DeviceOfVerdict(input);
  if (device == nullptr || input.attribution == nullptr || input.attribution->device != device->device) {
    outlook.sentence = "not known: there is no GPU memory in this trace";
    return outlook;
  }
  outlook.device = device->device;
  outlook.misses_events = input.analysis->MissesEvents();
  StepLevels levels;
  for (const AttributedStep& each : input.attribution->steps) {
    const bool is_asked =
        each.step.start.time_ns >= input.window_start_ns() && each.step.end.time_ns <= input.window_end_ns();
    if (!each.step.complete || !is_asked) continue;
    levels.allocated.push_back(static_cast<double>(each.step.peak.values.allocated));
    levels.reserved.push_back(static_cast<double>(each.step.peak.values.reserved));
    outlook.level = each.step.peak.values.allocated;
    outlook.last_step = each.step.number;
  }
  outlook.steps = levels.allocated.size();
  outlook.step_ns = StepPace(Durations(input.attribution->steps));
  outlook.overhead = OverheadOf(*device);
  outlook.limit = LimitOf(*device, outlook.overhead);
  outlook.cause = CauseOf(input, device->device);
  JudgeOutlook(levels, &outlook);
  if (outlook.limit.high <= 0) return outlook;
  const OomEvent* const oom = OomToExplain(input.analysis->ooms);
  if (oom != nullptr && oom->final && oom->device == outlook.device) {
    outlook.sentence = absl::StrCat("it ran out of memory after step ", FormatCount(outlook.last_step),
                                    " (gpumemshim oom). Seen from there: ", outlook.sentence);
  }
  return outlook;
}

}  // namespace gpumem
