// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "answers/parts/pin_lines.h"
#include "answers/report/sections.h"
#include "answers/report/stack_rows.h"
#include "base/format.h"
#include "base/utf8.h"
#include "ledger/stacks/names.h"
#include "render/sparkline.h"

namespace gpumem {
namespace {

// One row of the table of moments and pools.
Page::Row PointRow(absl::string_view what, const FragmentationPoint& point) {
  return {std::string(what),
          FormatBytes(point.reserved),
          FormatBytes(point.free),
          FormatBytes(point.largest_free_range),
          FormatCount(point.free_ranges),
          FormatPercent(point.external_ratio),
          point.requested_known ? FormatBytes(point.rounding) : "not known",
          FormatBytes(point.empty_cache)};
}

void AddTable(const Fragmentation& fragmentation, Detail detail, Document* answer) {
  std::vector<Page::Row> rows = {
      {"", "reserved", "free", "largest", "ranges", "external", "rounding", "empty_cache()"}};
  rows.push_back(PointRow("at the peak", fragmentation.at_peak));
  rows.push_back(PointRow("at the end", fragmentation.at_end));
  if (detail == Detail::kFull) {
    for (const PoolFragmentation& pool : fragmentation.pools) {
      rows.push_back(PointRow(absl::StrCat(pool.pool, " pool, peak"), pool.at_peak));
      rows.push_back(PointRow(absl::StrCat(pool.pool, " pool, end"), pool.at_end));
    }
  }
  answer->Cells({Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight,
                 Align::kRight},
                rows);
}

// External fragmentation as a curve from 0 to 100 %.
void AddCurve(const Fragmentation& fragmentation, const ReportInput& input, Document* answer) {
  if (fragmentation.over_time.size() < 2) return;
  TimeCurve curve;
  curve.room = 40;
  curve.top = 1000;
  curve.lead = {{Tone::kPlain, "  external over time  "}};
  curve.after = {{Tone::kAside, "  0 to 100 %"}};
  curve.values = [&fragmentation, &input](size_t count) {
    std::vector<TimelinePoint> points;
    for (const FragmentationPoint& point : fragmentation.over_time) {
      TimelinePoint& shown = points.emplace_back();
      shown.time_ns = point.time_ns;
      shown.max.total = static_cast<uint64_t>(point.external_ratio * 1000);
    }
    return Resample(points, Measure::kTotal, input.window_start_ns(), input.window_end_ns(), count);
  };
  answer->Curve(std::move(curve));
}

// By line of code, with true totals. In a brief report the first line alone.
void AddPins(absl::string_view when, uint64_t time_ns, const std::vector<PinGroup>& groups, const ReportInput& input,
             const TextOptions& options, Document* answer) {
  if (groups.empty()) return;
  answer->Line({{Tone::kPlain, absl::StrCat("  Blocks that keep mostly empty segments from CUDA, ", when, ":")},
                {Tone::kAside, absl::StrCat("  ", FormatBytes(ReturnableBytes(groups)), " in all")}});
  AddPinLines(PinLines(groups, input), time_ns, input, options, answer);
}

std::string Judgement(const FragmentationPoint& peak) {
  switch (FreeSpaceOf(peak)) {
    case FreeSpace::kLittle:
      return "little is free inside PyTorch's segments; there is nothing to gain here";
    case FreeSpace::kScattered:
      return absl::StrCat(FormatBytes(peak.free), " is free inside PyTorch's segments but scattered: a request over ",
                          FormatBytes(peak.largest_free_range), " needs new memory from CUDA");
    case FreeSpace::kCached:
      break;
  }
  return absl::StrCat(FormatBytes(peak.free),
                      " is free inside PyTorch's segments, mostly in one piece: cached, not scattered");
}

}  // namespace

void AddFragmentation(const DeviceAnalysis& device, const ReportInput& input, const TextOptions& options,
                      Document* answer) {
  const Fragmentation& fragmentation = device.fragmentation;
  answer->Gap();
  answer->Line({{Tone::kHeading, absl::StrCat("Fragmentation on ", DeviceLabel(device.device))},
                {Tone::kAside, "  free space inside PyTorch's segments"}});
  if (fragmentation.at_peak.reserved == 0) {
    answer->Line("  PyTorch reserved nothing on this device.");
    return;
  }
  answer->Paragraph("  ", absl::StrCat("At the peak of reserved ", Judgement(fragmentation.at_peak), "."));
  AddTable(fragmentation, options.detail, answer);
  if (options.detail == Detail::kBrief) {
    TextOptions one = options;
    one.top = 1;
    AddPins("at the end", fragmentation.at_end.time_ns, fragmentation.groups_at_end, input, one, answer);
    return;
  }
  AddCurve(fragmentation, input, answer);
  AddPins("at the peak of reserved", fragmentation.at_peak.time_ns, fragmentation.groups_at_peak, input, options,
          answer);
  AddPins("at the end", fragmentation.at_end.time_ns, fragmentation.groups_at_end, input, options, answer);
}

}  // namespace gpumem
