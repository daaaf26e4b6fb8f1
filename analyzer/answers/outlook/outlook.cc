// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/outlook/outlook.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
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
constexpr double kLeastBesideRise = 1 << 20;  // of memory beside PyTorch's: less is none
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

// What the driver takes for contexts and code, where lines of the program make it take more from step to step. Levels
// that are as many as the steps and end with the last one.
uint64_t AddDriver(const ReportInput& input, int device, std::vector<double>* levels) {
  const LeakDevice* const found = input.leaks == nullptr ? nullptr : LeaksOf(*input.leaks, device);
  uint64_t last = 0;
  for (size_t i = 0; found != nullptr && i < found->rows.size(); ++i) {
    const LeakRow& row = found->rows[i];
    const bool is_counted = row.kind == LeakKind::kDriver && row.status == LeakStatus::kGrowing &&
                            input.leaks->loops[row.loop].are_steps && !row.bytes.empty() &&
                            row.bytes.size() <= levels->size();
    if (!is_counted) continue;
    const size_t before = levels->size() - row.bytes.size();
    for (size_t at = 0; at < row.bytes.size(); ++at) (*levels)[before + at] += static_cast<double>(row.bytes[at]);
    last += static_cast<uint64_t>(std::max<int64_t>(row.bytes.back(), 0));
  }
  return last;
}

// Other memory of the process grows, too: it is counted like PyTorch's blocks, and so is the room that it has.
void CountBeside(StepLevels* levels, Outlook* outlook) {
  if (levels->beside.size() != levels->allocated.size() || levels->beside.empty()) return;
  if (levels->beside.back() - levels->beside.front() < kLeastBesideRise) return;
  outlook->counts_beside = true;
  for (size_t i = 0; i < levels->beside.size(); ++i) {
    levels->allocated[i] += levels->beside[i];
    levels->reserved[i] += levels->beside[i];
  }
  outlook->level += static_cast<uint64_t>(levels->beside.back());
  const auto part = static_cast<double>(std::min(outlook->beside, outlook->overhead));
  outlook->overhead -= static_cast<uint64_t>(part);
  outlook->limit.low += part;
  outlook->limit.high += part;
}

// Of the stretch: most of its growth is not PyTorch's.
bool GrowsBeside(const StepLevels& levels, size_t since) {
  return 2 * (levels.beside.back() - levels.beside[since]) >= levels.allocated.back() - levels.allocated[since];
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

void JudgeOutlook(StepLevels levels, Outlook* outlook) {
  if (outlook->limit.high <= 0) {
    outlook->sentence = "not known: this trace does not say how much memory the GPU has";
    return;
  }
  CountBeside(&levels, outlook);
  outlook->forecast = ForecastOf(levels.allocated, outlook->limit);
  if (outlook->forecast.per_step > 0) {
    const double room = RoomAtThisRatio(levels, outlook->forecast.grows_since, outlook->limit.high);
    outlook->limit.low = std::min(outlook->limit.low, room);
    // What CUDA is asked for beside PyTorch has no use for what is idle in PyTorch's segments.
    if (outlook->counts_beside && GrowsBeside(levels, outlook->forecast.grows_since))
      outlook->limit.high = std::min(outlook->limit.high, std::max(room, outlook->limit.low));
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
    levels.beside.push_back(static_cast<double>(each.step.peak.values.other));
    outlook.level = each.step.peak.values.allocated;
    outlook.last_step = each.step.number;
  }
  outlook.steps = levels.allocated.size();
  outlook.step_ns = StepPace(Durations(input.attribution->steps));
  outlook.overhead = OverheadOf(*device);
  outlook.limit = LimitOf(*device, outlook.overhead);
  outlook.cause = CauseOf(input, device->device);
  const MemoryBreakdown& end = device->breakdown_at_end;
  outlook.beside = (end.any ? end.values.other : device->end.other) + AddDriver(input, device->device, &levels.beside);
  JudgeOutlook(std::move(levels), &outlook);
  if (outlook.limit.high <= 0) return outlook;
  const OomEvent* const oom = OomToExplain(input.analysis->ooms);
  if (oom != nullptr && oom->final && oom->device == outlook.device) {
    outlook.sentence = absl::StrCat("it ran out of memory after step ", FormatCount(outlook.last_step),
                                    " (gpumemshim oom). Seen from there: ", outlook.sentence);
  }
  return outlook;
}

Outlook HostOutlookOf(const ReportInput& input) {
  Outlook outlook;
  const LeakDevice* const host = input.leaks == nullptr ? nullptr : LeaksOf(*input.leaks, kHostDevice);
  StepLevels levels;
  for (size_t i = 0; host != nullptr && i < host->rows.size(); ++i) {
    const LeakRow& row = host->rows[i];
    if (row.status != LeakStatus::kGrowing || !input.leaks->loops[row.loop].are_steps) continue;
    levels.allocated.resize(std::max(levels.allocated.size(), row.bytes.size()));
    const size_t before = levels.allocated.size() - row.bytes.size();
    for (size_t at = 0; at < row.bytes.size(); ++at)
      levels.allocated[before + at] += static_cast<double>(row.bytes[at]);
    outlook.last_step = input.leaks->loops[row.loop].iterations;
  }
  if (levels.allocated.empty()) return outlook;
  levels.reserved = levels.allocated;
  outlook.misses_events = input.analysis->MissesEvents();
  outlook.steps = levels.allocated.size();
  outlook.level = static_cast<uint64_t>(std::max(0.0, levels.allocated.back()));
  if (input.attribution != nullptr) outlook.step_ns = StepPace(Durations(input.attribution->steps));
  const SamplingInfo& machine = input.analysis->sampling;
  if (machine.system_total != 0)
    outlook.limit.low = outlook.limit.high = static_cast<double>(outlook.level + machine.least_system_available);
  outlook.cause = CauseOf(input, kHostDevice);
  JudgeOutlook(std::move(levels), &outlook);
  if (outlook.limit.high <= 0) outlook.sentence = "not known: this trace does not say how much RAM the machine has";
  return outlook;
}

}  // namespace gpumem
