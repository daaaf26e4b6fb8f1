// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "answers/report/sections.h"
#include "base/format.h"
#include "base/utf8.h"
#include "ledger/stacks/names.h"
#include "render/instants.h"
#include "render/sparkline.h"

namespace gpumem {
namespace {

constexpr std::array<Measure, 4> kMeasures = {Measure::kAllocated, Measure::kReserved, Measure::kOther,
                                              Measure::kTotal};
constexpr size_t kChartRows = 8;
constexpr size_t kTableRows = 20;

// Series that say something: those that are ever above zero; total only where it is not one of the others over again.
std::vector<Measure> Shown(const DeviceAnalysis& device) {
  std::vector<Measure> shown;
  for (const Measure measure : kMeasures) {
    if (PeakOf(device, measure).bytes == 0) continue;
    const bool both = device.peak_reserved.bytes > 0 && device.peak_other.bytes > 0;
    if (measure == Measure::kTotal && !both &&
        device.peak_total.bytes == std::max(device.peak_reserved.bytes, device.peak_other.bytes))
      continue;
    shown.push_back(measure);
  }
  return shown;
}

std::string CurveWords(const DeviceAnalysis& device, Measure measure, const ReportInput& input) {
  const SeriesPeak& peak = PeakOf(device, measure);
  return absl::StrCat(PadLeft(absl::StrCat(BoundSign(device.bound), FormatBytes(peak.bytes)), 10), " at ",
                      PadRight(PeakInstant(peak.time_ns, input), 9), " end ",
                      FormatBytes(ValueOf(device.end, measure)));
}

void AddCurves(const DeviceAnalysis& device, const ReportInput& input, Page* page) {
  constexpr int kLabel = 12, kWords = 42;
  const TextStyle& style = page->style();
  const auto columns = static_cast<size_t>(std::clamp(style.width - kLabel - kWords - 2, 8, 120));
  const uint64_t top = std::max({device.peak_total.bytes, device.peak_allocated.bytes, device.peak_reserved.bytes});
  for (const Measure measure : Shown(device)) {
    const auto values = Resample(device.timeline, measure, input.window_start_ns(), input.window_end_ns(), columns);
    page->Line({{Tone::kPlain, absl::StrCat("  ", PadRight(MeasureName(measure), kLabel - 2))},
                {Tone::kGood, Sparkline(values, top, style.utf8)},
                {Tone::kPlain, absl::StrCat("  ", CurveWords(device, measure, input))}});
  }
}

void AddChart(const DeviceAnalysis& device, Measure measure, const ReportInput& input, Page* page) {
  constexpr int kScale = 12;
  const TextStyle& style = page->style();
  const auto columns = static_cast<size_t>(std::max(style.width - kScale - 2, 10));
  const uint64_t top = PeakOf(device, measure).bytes;
  const auto values = Resample(device.timeline, measure, input.window_start_ns(), input.window_end_ns(), columns);
  const std::vector<std::string> rows = Chart(values, top, kChartRows, style.utf8);
  page->Gap();
  page->Line({{Tone::kHeading, absl::StrCat(DeviceLabel(device.device), ", ", MeasureName(measure))}});
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string scale = i == 0 || i == kChartRows / 2 ? FormatBytes(top * (kChartRows - i) / kChartRows) : "";
    page->Line({{Tone::kAside, absl::StrCat(PadLeft(scale, kScale - 1), " |")}, {Tone::kGood, rows[i]}});
  }
  const std::string start = FormatTime(input.Since(input.window_start_ns())),
                    end = FormatTime(input.Since(input.window_end_ns()));
  page->Line({{Tone::kAside, absl::StrCat(PadLeft("0 B", kScale - 1), " +", std::string(columns, '-'))}});
  page->Line({{Tone::kAside, absl::StrCat(std::string(kScale + 1, ' '), start,
                                          PadLeft(end, static_cast<int>(columns) - DisplayWidth(start)))}});
}

// Points spread evenly over the timeline, each group with its maxima.
void AddTimelineTable(const DeviceAnalysis& device, const ReportInput& input, Page* page) {
  std::vector<Page::Row> rows = {{"from", "allocated", "reserved", "other", "total"}};
  const size_t points = device.timeline.size();
  const size_t step = std::max<size_t>(1, (points + kTableRows - 1) / kTableRows);
  for (size_t i = 0; i < points; i += step) {
    MeasureValues most;
    for (size_t k = i; k < std::min(i + step, points); ++k) {
      const MeasureValues& value = device.timeline[k].max;
      most = {std::max(most.allocated, value.allocated), std::max(most.reserved, value.reserved),
              std::max(most.other, value.other), std::max(most.total, value.total)};
    }
    rows.push_back({FormatTime(input.Since(device.timeline[i].time_ns)), FormatBytes(most.allocated),
                    FormatBytes(most.reserved), FormatBytes(most.other), FormatBytes(most.total)});
  }
  page->Gap();
  page->Line("Largest values from each time on:");
  page->Table({Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight}, rows);
}

}  // namespace

void AddTimeline(const DeviceAnalysis& device, const ReportInput& input, Detail detail, Page* page) {
  page->Gap();
  page->Line({{Tone::kHeading, absl::StrCat(DeviceLabel(device.device), " over time")},
              {Tone::kAside, absl::StrCat("  ", FormatTime(input.Since(input.window_start_ns())), " to ",
                                          FormatTime(input.Since(input.window_end_ns())), "; peak and end of each")}});
  const std::vector<Measure> shown = Shown(device);
  if (shown.empty()) {
    page->Line("  nothing was allocated");
    return;
  }
  AddCurves(device, input, page);
  if (detail == Detail::kBrief) return;
  for (const Measure measure : shown) {
    if (measure == Measure::kAllocated || measure == shown.back()) AddChart(device, measure, input, page);
  }
  AddTimelineTable(device, input, page);
}

}  // namespace gpumem
