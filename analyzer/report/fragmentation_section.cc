// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/format.h"
#include "base/utf8.h"
#include "report/names.h"
#include "report/sections.h"
#include "report/sparkline.h"
#include "report/stack_rows.h"

namespace gpumem {
namespace {

constexpr uint64_t kPercentLittle = 5;  // less of reserved than this being free is not worth anybody's time

// One row of the table of moments and pools.
Page::Row PointRow(absl::string_view what, const FragmentationPoint& point) {
  return {std::string(what),
          FormatBytes(point.reserved),
          FormatBytes(point.free),
          FormatBytes(point.largest_free_range),
          FormatCount(point.free_ranges),
          FormatPercent(point.external_ratio),
          point.requested_known ? FormatBytes(point.rounding) : "not known"};
}

void AddTable(const Fragmentation& fragmentation, Detail detail, Page* page) {
  std::vector<Page::Row> rows = {{"", "reserved", "free", "largest", "ranges", "external", "rounding"}};
  rows.push_back(PointRow("at the peak", fragmentation.at_peak));
  rows.push_back(PointRow("at the end", fragmentation.at_end));
  if (detail == Detail::kFull) {
    for (const PoolFragmentation& pool : fragmentation.pools) {
      rows.push_back(PointRow(absl::StrCat(pool.pool, " pool, peak"), pool.at_peak));
      rows.push_back(PointRow(absl::StrCat(pool.pool, " pool, end"), pool.at_end));
    }
  }
  page->Table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight},
              rows);
}

// External fragmentation as a curve from 0 to 100 %.
void AddCurve(const Fragmentation& fragmentation, const ReportInput& input, Page* page) {
  if (fragmentation.over_time.size() < 2) return;
  std::vector<TimelinePoint> points;
  for (const FragmentationPoint& point : fragmentation.over_time) {
    TimelinePoint& shown = points.emplace_back();
    shown.time_ns = point.time_ns;
    shown.max.total = static_cast<uint64_t>(point.external_ratio * 1000);
  }
  const auto columns = static_cast<size_t>(std::clamp(page->style().width - 40, 8, 120));
  const auto values = Resample(points, Measure::kTotal, input.window_start_ns(), input.window_end_ns(), columns);
  page->Line({{Tone::kPlain, "  external over time  "},
              {Tone::kGood, Sparkline(values, 1000, page->style().utf8)},
              {Tone::kAside, "  0 to 100 %"}});
}

void AddPins(absl::string_view when, const std::vector<PinningBlock>& pins, const ReportInput& input,
             const TextOptions& options, Page* page) {
  if (pins.empty()) return;
  page->Line(absl::StrCat("  Blocks that keep mostly empty segments from CUDA, ", when, ":"));
  const size_t shown = options.top == 0 ? pins.size() : std::min(options.top, pins.size());
  for (size_t i = 0; i < shown; ++i) {
    const PinningBlock& pin = pins[i];
    const std::string lead = absl::StrCat(
        "  ", PadLeft(FormatBytes(pin.block_bytes), 10), " keeps ", PadLeft(FormatBytes(pin.segment_bytes), 10),
        pin.returnable > 0 ? ", alone  " : absl::StrFormat(", 1 of %d  ", pin.blocks_in_segment));
    AddOneStack(lead, pin.stack_id, "", input, options, page);
  }
  if (shown < pins.size())
    page->Line({{Tone::kAside, absl::StrCat("  and ", FormatCount(pins.size() - shown), " more")}});
}

std::string Judgement(const FragmentationPoint& peak) {
  if (peak.free * 100 < peak.reserved * kPercentLittle)
    return "little is free inside PyTorch's segments; there is nothing to gain here";
  if (peak.external_ratio >= 0.5) {
    return absl::StrCat(FormatBytes(peak.free), " is free inside PyTorch's segments but scattered: a request over ",
                        FormatBytes(peak.largest_free_range), " needs new memory from CUDA");
  }
  return absl::StrCat(FormatBytes(peak.free),
                      " is free inside PyTorch's segments, mostly in one piece: cached, not scattered");
}

}  // namespace

void AddFragmentation(const DeviceAnalysis& device, const ReportInput& input, const TextOptions& options, Page* page) {
  const Fragmentation& fragmentation = device.fragmentation;
  page->Gap();
  page->Line({{Tone::kHeading, absl::StrCat("Fragmentation on ", DeviceLabel(device.device))},
              {Tone::kAside, "  free space inside PyTorch's segments"}});
  if (fragmentation.at_peak.reserved == 0) {
    page->Line("  PyTorch reserved nothing on this device.");
    return;
  }
  page->Paragraph("  ", absl::StrCat("At the peak of reserved ", Judgement(fragmentation.at_peak), "."));
  AddTable(fragmentation, options.detail, page);
  if (options.detail == Detail::kBrief) {
    TextOptions one = options;
    one.top = 1;
    AddPins("at the end", fragmentation.pins_at_end, input, one, page);
    return;
  }
  AddCurve(fragmentation, input, page);
  AddPins("at the peak of reserved", fragmentation.pins_at_peak, input, options, page);
  AddPins("at the end", fragmentation.pins_at_end, input, options, page);
}

}  // namespace gpumem
