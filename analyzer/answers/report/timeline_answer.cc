// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "answers/report/sections.h"
#include "answers/report/trace_answer.h"
#include "base/format.h"
#include "base/utf8.h"
#include "ledger/load/ground.h"
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
std::vector<Measure> ShownMeasures(const DeviceAnalysis& device) {
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

// What all curves of a device have in common.
TimeCurve CurveOf(const DeviceAnalysis& device, Measure measure, const ReportInput& input) {
  TimeCurve curve;
  curve.values = [&device, measure, &input](size_t count) {
    return Resample(device.timeline, measure, input.window_start_ns(), input.window_end_ns(), count);
  };
  return curve;
}

constexpr size_t kLeastPoints = 16;

// Whether nearly all that is known of the curve lies in less than a third of its time: a short run is mostly a wait,
// for imports and for a model that is made on the CPU.
bool IsMostlyAWait(const DeviceAnalysis& device, const ReportInput& input) {
  const std::vector<TimelinePoint>& points = device.timeline;
  const size_t most = points.size() - points.size() / 10;
  if (points.size() < kLeastPoints) return false;
  const uint64_t third = (input.window_end_ns() - input.window_start_ns()) / 3;
  for (size_t i = 0; i + most <= points.size(); ++i) {
    if (points[i + most - 1].time_ns - points[i].time_ns < third) return true;
  }
  return false;
}

// Each slice of time in which something happened has the same width.
std::vector<uint64_t> WithoutWaits(const DeviceAnalysis& device, Measure measure, size_t columns) {
  std::vector<uint64_t> values(columns, 0);
  const std::vector<TimelinePoint>& points = device.timeline;
  for (size_t column = 0; column < columns; ++column) {
    const size_t first = column * points.size() / columns;
    const size_t end = std::max(first + 1, (column + 1) * points.size() / columns);
    for (size_t i = first; i < std::min(end, points.size()); ++i)
      values[column] = std::max(values[column], ValueOf(points[i].max, measure));
  }
  return values;
}

void AddCurves(const DeviceAnalysis& device, const ReportInput& input, Document* answer) {
  constexpr int kLabel = 12, kWords = 42;
  const bool knows_end = GroundOf(*input.analysis).knows_end;
  for (const Measure measure : ShownMeasures(device)) {
    const SeriesPeak& peak = PeakOf(device, measure);
    TimeCurve curve = CurveOf(device, measure, input);
    if (IsMostlyAWait(device, input))
      curve.values = [&device, measure](size_t count) { return WithoutWaits(device, measure, count); };
    curve.room = kLabel + kWords + 2;
    curve.top = std::max({device.peak_total.bytes, device.peak_allocated.bytes, device.peak_reserved.bytes});
    curve.lead = {{Tone::kPlain, absl::StrCat("  ", PadRight(MeasureName(measure), kLabel - 2))}};
    curve.after = {
        {Tone::kPlain, absl::StrCat("  ", PadLeft(absl::StrCat(BoundSign(device.bound), FormatBytes(peak.bytes)), 10),
                                    " ", PadRight(AtPeak(peak.time_ns, input), 12), " end ",
                                    knows_end ? FormatBytes(ValueOf(device.end, measure)) : "not known")}};
    answer->Curve(std::move(curve));
  }
}

void AddChart(const DeviceAnalysis& device, Measure measure, const ReportInput& input, Document* answer) {
  TimeCurve curve = CurveOf(device, measure, input);
  curve.rows = kChartRows;
  curve.top = PeakOf(device, measure).bytes;
  curve.lead = {{Tone::kHeading, absl::StrCat(DeviceLabel(device.device), ", ", MeasureName(measure))}};
  curve.from = FormatTime(input.Since(input.window_start_ns()));
  curve.to = FormatTime(input.Since(input.window_end_ns()));
  answer->Gap();
  answer->Curve(std::move(curve));
}

// Points spread evenly over the timeline, each group with its maxima.
std::vector<TimelinePoint> LargestOfGroups(const std::vector<TimelinePoint>& points) {
  std::vector<TimelinePoint> groups;
  const size_t step = std::max<size_t>(1, (points.size() + kTableRows - 1) / kTableRows);
  for (size_t i = 0; i < points.size(); i += step) {
    TimelinePoint& group = groups.emplace_back(points[i]);
    for (size_t k = i; k < std::min(i + step, points.size()); ++k) {
      const MeasureValues& value = points[k].max;
      group.max = {std::max(group.max.allocated, value.allocated), std::max(group.max.reserved, value.reserved),
                   std::max(group.max.other, value.other), std::max(group.max.total, value.total)};
    }
  }
  return groups;
}

using PointColumn = AnswerColumn<TimelinePoint>;

PointColumn BytesColumn(absl::string_view key, absl::string_view title, uint64_t MeasureValues::*value) {
  return {key, title, Unit::kBytes, "the most of each series in the slice of time that begins then",
          [value](const TimelinePoint& point) { return point.max.*value; }};
}

std::vector<PointColumn> PointColumns(const ReportInput& input) {
  return {{"time_ns", "from", Unit::kTime, "when the slice of time begins",
           [&input](const TimelinePoint& point) { return input.Since(point.time_ns); }},
          BytesColumn("allocated_bytes", "allocated", &MeasureValues::allocated),
          BytesColumn("reserved_bytes", "reserved", &MeasureValues::reserved),
          BytesColumn("other_bytes", "other", &MeasureValues::other),
          BytesColumn("total_bytes", "total", &MeasureValues::total)};
}

}  // namespace

void AddTimeline(const DeviceAnalysis& device, const ReportInput& input, Detail detail, Document* answer) {
  answer->Gap();
  const Ground ground = GroundOf(*input.analysis);
  if (!ground.has_history())
    return answer->Line(absl::StrCat(DeviceLabel(device.device), " over time: not known, this is one moment"));
  const std::string span = ground.has_times ? absl::StrCat(FormatTime(input.Since(input.window_start_ns())), " to ",
                                                           FormatTime(input.Since(input.window_end_ns())))
                                            : "in the order of events, their times are not known";
  const bool skips_waits = ground.has_times && IsMostlyAWait(device, input);
  answer->Line(
      {{Tone::kHeading, absl::StrCat(DeviceLabel(device.device), " over time")},
       {Tone::kAside, absl::StrCat("  ", span, skips_waits ? ", waits left out" : "", "; peak and end of each")}});
  const std::vector<Measure> shown = ShownMeasures(device);
  if (shown.empty()) return answer->Line("  nothing was allocated");
  AddCurves(device, input, answer);
  if (detail == Detail::kBrief) return;
  for (const Measure measure : shown) {
    if (measure == Measure::kAllocated || measure == shown.back()) AddChart(device, measure, input, answer);
  }
  answer->Gap();
  answer->Line("Largest values from each time on:");
  answer->Table("", "", PointColumns(input), LargestOfGroups(device.timeline), {});  // for people alone
}

Document TimelineFields(const DeviceAnalysis& device, const ReportInput& input) {
  Document answer;
  answer.Table("timeline", "in devices: one object a slice of time", PointColumns(input), device.timeline,
               {.layout = JsonLayout::kOneLine, .is_shown = false});
  return answer;
}

Document TimelineAnswer(const ReportInput& input) {
  const Analysis& analysis = *input.analysis;
  Document answer = TraceAnswer("timeline", input);
  answer.Field("host_pinned", HostPinnedDatum(analysis), "page-locked RAM of the host");
  AddDevices(
      input,
      [&](const DeviceAnalysis& device, Document* object) {
        object->Append(TimelineFields(device, input));
        AddDeviceSamples(device, input, object);
      },
      &answer);
  for (const DeviceAnalysis& device : analysis.devices) AddTimeline(device, input, Detail::kFull, &answer);
  AddMarkFields(input, &answer);
  AddMarks(input, Detail::kFull, &answer);
  return answer;
}

}  // namespace gpumem
