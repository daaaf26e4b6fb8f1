// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/plots/moment_plots.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/format.h"

namespace gpumem::plan {

plots::Panel PeakPanel(const PlotRequest& request, PlotDevice* device) {
  const size_t row = device->peak_row();
  std::vector<PlotLayer> layers = device->TakeLayers(request.by);
  std::erase_if(layers, [&](const PlotLayer& layer) { return layer.bytes[row] == 0; });
  std::stable_sort(layers.begin(), layers.end(),
                   [&](const PlotLayer& a, const PlotLayer& b) { return a.bytes[row] > b.bytes[row]; });
  plots::BarChart chart{.horizontal = true, .totals = true};
  plots::BarSeries bars{"", plots::PaletteColor(0)};
  for (const PlotLayer& layer : layers) {
    chart.categories.push_back(layer.name);
    bars.values.push_back(layer.bytes[row]);
  }
  chart.series = {std::move(bars)};
  return {.chart = std::move(chart)};
}

plots::Panel TreemapPanel(const PlotRequest& request, const PlotDevice& device) {
  const PageLayer inside = request.by == PageLayer::kLine ? PageLayer::kModule : PageLayer::kLine;
  std::map<std::string, std::map<std::string, double>> groups;
  uint64_t named = 0;
  for (const PageLife* const row : device.AliveAt(device.peak().event_index)) {
    groups[device.KeyText(request.by, *row)][device.KeyText(inside, *row)] += static_cast<double>(row->life.size);
    named += row->life.size;
  }
  plots::Treemap chart;
  for (const auto& [name, parts] : groups) {
    plots::TreemapGroup group{name.empty() ? "not known" : name, device.ColorOf(request.by, name, chart.groups.size())};
    for (const auto& [part, bytes] : parts) group.parts.push_back({part, bytes});
    chart.groups.push_back(std::move(group));
  }
  const TimeRow& peak = device.rows()[device.peak_row()];
  const uint64_t held = peak.values.allocated + peak.values.other;
  std::string note;
  if (held > named)
    note = absl::StrCat(FormatBytes(held - named), " in smaller blocks, or from before the recording, are not drawn");
  return {.note = std::move(note), .chart = std::move(chart)};
}

plots::Panel AddressesPanel(const PlotRequest& request, const PlotTrace& trace, const PlotDevice& device) {
  const uint64_t event = device.peak().event_index;
  std::vector<const PageLife*> segments;
  for (const PageLife& row : trace.pass->segments().lives()) {
    if (row.device == device.analysis().device && row.life.born <= event && event < row.life.end)
      segments.push_back(&row);
  }
  std::stable_sort(segments.begin(), segments.end(),
                   [](const PageLife* a, const PageLife* b) { return a->life.size > b->life.size; });
  std::map<uint64_t, const PageLife*> blocks;  // by address
  for (const PageLife* const row : device.AliveAt(event)) blocks[row->life.address] = row;
  plots::SpanChart chart;
  for (const PageLife* const segment : segments) {
    const uint64_t from = segment->life.address, size = segment->life.size;
    plots::SpanRow row{.label = FormatBytes(size), .length = static_cast<double>(size)};
    uint64_t used = 0;
    for (auto block = blocks.lower_bound(from); block != blocks.end() && block->first < from + size; ++block) {
      const double start = static_cast<double>(block->first - from);
      const std::string name = device.KeyText(request.by, *block->second);
      const size_t place = std::hash<std::string>{}(name) % 8;
      row.spans.push_back(
          {start, start + static_cast<double>(block->second->life.size), device.ColorOf(request.by, name, place)});
      used += block->second->life.size;
    }
    const bool pinned = row.spans.size() == 1 && used < size / 2;
    if (pinned) row.spans.front().alarm = true;
    if (used < size) row.note = absl::StrCat(pinned ? "pinned, " : "", FormatBytes(size - used), " free");
    chart.rows.push_back(std::move(row));
  }
  return {.note = "grey is free; a red frame is the only block of its segment", .chart = std::move(chart)};
}

}  // namespace gpumem::plan
