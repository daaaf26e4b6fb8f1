// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "planner/sweep/digest.h"
#include "planner/sweep/pictures/picture_parts.h"
#include "planner/sweep/pictures/pictures.h"
#include "planner/sweep/words.h"

namespace gpumem::plan {

plots::Figure TimelineFigure(const SweepAnswer& answer, const SweepRow& row) {
  plots::LineChart chart{.x_title = "time since the start", .x_unit = plots::Unit::kSeconds};
  chart.limit = CapacityLimit(answer);
  plots::LineSeries reserved{
      .name = "reserved", .color = plots::PaletteColor(1), .marks = false, .stepped = true, .dashed = false};
  plots::LineSeries allocated{
      .name = "allocated", .color = plots::PaletteColor(0), .marks = false, .area = true, .stepped = true};
  const RowPoint* peak = nullptr;
  for (const RowPoint& point : row.timeline) {
    allocated.points.push_back({point.seconds, static_cast<double>(point.allocated)});
    reserved.points.push_back({point.seconds, static_cast<double>(point.reserved)});
    if (peak == nullptr || point.allocated > peak->allocated) peak = &point;
  }
  if (peak != nullptr) {
    // The course has few points; the peak itself is known exactly.
    const uint64_t most = std::max(peak->allocated, row.peak_allocated);
    chart.callouts.push_back(
        {{peak->seconds, static_cast<double>(most)}, absl::StrCat("peak ", FormatBytes(most)), plots::kInk});
  }
  chart.series = {std::move(allocated), std::move(reserved)};
  plots::Figure figure;
  figure.title = absl::StrCat("Memory over time, configuration ", row.number);
  figure.subtitle = SubtitleOf(answer);
  std::string verdict(StateTitle(row.state, SweepLanguage::kEnglish));
  if (row.state == RowState::kOutOfMemory && NeedOf(row) > 0) {
    absl::StrAppend(&verdict, ": the process needs ", FormatBytes(NeedOf(row)));
  } else if (!row.reason.empty()) {
    absl::StrAppend(&verdict, ": ", row.reason);
  }
  figure.rows.push_back(
      {{{.title = ConfigurationText(row.values), .note = std::move(verdict), .chart = std::move(chart)}}, 520});
  return figure;
}

}  // namespace gpumem::plan
