// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "render/instants.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/format.h"
#include "ledger/load/ground.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

constexpr uint64_t kMillisecond = 1'000'000, kSecond = 1'000'000'000;

// With `digits` behind the point: of milliseconds, or of seconds from one second on.
std::string WithDigits(uint64_t ns, int digits) {
  if (ns < kSecond) return absl::StrFormat("%.*f ms", digits, static_cast<double>(ns) / kMillisecond);
  return absl::StrFormat("%.*f s", digits, static_cast<double>(ns) / kSecond);
}

}  // namespace

std::string FormatTimeApart(uint64_t ns, const std::vector<uint64_t>& others) {
  const auto is_taken = [&](auto&& format) {
    return std::any_of(others.begin(), others.end(),
                       [&](uint64_t other) { return other != ns && format(other) == format(ns); });
  };
  if (!is_taken(FormatTime)) return FormatTime(ns);
  for (int digits = ns < kSecond ? 1 : 4; digits < 9; ++digits) {
    const auto format = [digits](uint64_t each) { return WithDigits(each, digits); };
    if (!is_taken(format)) return format(ns);
  }
  return WithDigits(ns, ns < kSecond ? 6 : 9);
}

std::string AtPeak(uint64_t time_ns, const ReportInput& input) {
  const Ground ground = GroundOf(*input.analysis);
  if (!ground.has_history()) return "when the snapshot was taken";
  if (!ground.has_times) return absl::StrCat("at event ", FormatCount(input.Since(time_ns) / kMadeTimeNs + 1));
  std::vector<uint64_t> peaks;
  for (const DeviceAnalysis& device : input.analysis->devices) {
    for (const SeriesPeak* peak : {&device.peak_allocated, &device.peak_reserved, &device.peak_total})
      if (peak->bytes != 0) peaks.push_back(input.Since(peak->time_ns));
  }
  return absl::StrCat("at ", FormatTimeApart(input.Since(time_ns), peaks));
}

std::string EventsText(const ReportInput& input) {
  const EventCounts& events = input.analysis->events;
  const Ground ground = GroundOf(*input.analysis);
  return absl::StrCat(FormatCountOf(events.torch + events.runtime + events.driver, "event", "events"),
                      ground.has_times && ground.has_history()
                          ? absl::StrCat(" in ", FormatTime(input.Since(input.analysis->end_ns)))
                          : "");
}

}  // namespace gpumem
