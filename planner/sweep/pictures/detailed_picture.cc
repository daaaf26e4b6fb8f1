// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "planner/sweep/digest.h"
#include "planner/sweep/pictures/pictures.h"
#include "planner/sweep/words.h"

namespace gpumem::plan {
namespace {

using plots::BarChart;
using plots::Panel;

constexpr auto kEnglish = SweepLanguage::kEnglish;
constexpr size_t kMaxComponents = 10;
constexpr double kRowHeight = 470;

// Names with their sums, the largest first.
std::vector<std::string> BySize(const std::map<std::string, uint64_t>& sums) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : sums) {
    if (bytes > 0) names.push_back(name);
  }
  absl::c_stable_sort(names, [&](const std::string& a, const std::string& b) { return sums.at(a) > sums.at(b); });
  return names;
}

uint64_t At(const std::map<std::string, uint64_t>& bytes, const std::string& name) {
  const auto found = bytes.find(name);
  return found == bytes.end() ? 0 : found->second;
}

Panel ComponentPanel(const SweepRow& row) {
  BarChart chart{.stacked = true, .horizontal = true, .totals = true};
  std::map<std::string, uint64_t> sums;
  const size_t shown = std::min(row.components.size(), kMaxComponents);
  for (size_t i = 0; i < shown; ++i) {
    chart.categories.push_back(ComponentTitle(row.components[i].name, kEnglish));
    for (const auto& [type, bytes] : row.components[i].at_peak) sums[type] += bytes;
  }
  for (const std::string& type : BySize(sums)) {
    plots::BarSeries series{MemoryTypeTitle(type, kEnglish), MemoryTypeColor(type), {}};
    for (size_t i = 0; i < shown; ++i)
      series.values.push_back(static_cast<double>(At(row.components[i].at_peak, type)));
    chart.series.push_back(std::move(series));
  }
  return {.title = "Components at the peak", .note = "", .chart = std::move(chart)};
}

Panel TypePanel(const SweepRow& row) {
  plots::PieChart chart;
  for (const PartBytes& type : MemoryTypes(row))
    chart.slices.push_back(
        {MemoryTypeTitle(type.name, kEnglish), MemoryTypeColor(type.name), static_cast<double>(type.bytes)});
  return {.title = "Memory types at the peak", .note = "", .chart = std::move(chart)};
}

Panel TypesByConfigurationPanel(const SweepAnswer& answer) {
  BarChart chart = ByConfiguration(answer);
  chart.stacked = true;
  std::vector<std::map<std::string, uint64_t>> types(answer.rows.size());
  std::map<std::string, uint64_t> sums;
  for (size_t i = 0; i < answer.rows.size(); ++i) {
    for (const PartBytes& type : MemoryTypes(answer.rows[i])) {
      types[i][type.name] = type.bytes;
      sums[type.name] += type.bytes;
    }
  }
  for (const std::string& type : BySize(sums)) {
    plots::BarSeries series{MemoryTypeTitle(type, kEnglish), MemoryTypeColor(type), {}};
    for (const auto& of_row : types) series.values.push_back(static_cast<double>(At(of_row, type)));
    chart.series.push_back(std::move(series));
  }
  return {.title = "Memory types of each configuration", .note = "", .chart = std::move(chart)};
}

// Which component grows when the peak does: a point for each configuration.
Panel ScatterPanel(const SweepAnswer& answer) {
  plots::LineChart chart{.x_title = "peak allocated", .x_unit = plots::Unit::kBytes};
  std::map<std::string, uint64_t> sums;
  std::map<std::string, std::vector<plots::Point>> points;
  for (const SweepRow& row : answer.rows) {
    for (const RowComponent& component : row.components) {
      const uint64_t bytes = SumOf(component.at_peak);
      sums[component.name] += bytes;
      points[component.name].push_back({static_cast<double>(row.peak_allocated), static_cast<double>(bytes)});
    }
  }
  std::vector<std::string> names = BySize(sums);
  if (names.size() > kMaxComponents) names.resize(kMaxComponents);
  for (const std::string& name : names) {
    chart.series.push_back(
        {.name = ComponentTitle(name, kEnglish), .color = ComponentColor(name), .points = points[name], .line = false});
  }
  return {.title = "Components as the peak grows", .note = "a point for each configuration", .chart = std::move(chart)};
}

}  // namespace

plots::Figure DetailedFigure(const SweepAnswer& answer) {
  plots::Figure figure;
  figure.subtitle = SubtitleOf(answer);
  const SweepRow* row = RowToExplain(answer.rows);
  figure.title = "What the memory is made of";
  const SweepRow nothing;
  const SweepRow& shown = row == nullptr ? nothing : *row;
  figure.rows.push_back({{ComponentPanel(shown), TypePanel(shown)}, kRowHeight});
  if (row != nullptr) {
    for (Panel& panel : figure.rows.front().panels) panel.note = absl::StrCat("configuration ", row->number);
    figure.notes.push_back(absl::StrCat("Configuration ", row->number, ": ", ConfigurationText(row->values), "."));
  }
  figure.rows.push_back({{TypesByConfigurationPanel(answer), ScatterPanel(answer)}, kRowHeight});
  if (row != nullptr && row->state != RowState::kFits)
    figure.notes.push_back("The configuration above does not fit; none that fits could be looked into.");
  return figure;
}

namespace {

using plots::BarChart;
using plots::Panel;

constexpr size_t kMaxOperations = 10;
constexpr double kOperationsHeight = 440;

// One series an operation; the set-up of the model is not an operation, so "other" is left out where it is nothing.
std::vector<plots::BarSeries> SeriesOf(const std::vector<std::vector<PartBytes>>& operations) {
  std::vector<plots::BarSeries> all;
  for (const PartBytes& operation : Operations(SweepRow()))
    all.push_back({StageTitleOf(operation.name, SweepLanguage::kEnglish), OperationColor(operation.name), {}});
  bool any_other = false;
  for (const std::vector<PartBytes>& each : operations) {
    for (size_t i = 0; i < all.size(); ++i) all[i].values.push_back(static_cast<double>(each[i].bytes));
    any_other = any_other || each.back().bytes > 0;
  }
  if (!any_other) all.pop_back();
  return all;
}

Panel ComponentsPanel(const SweepRow& row) {
  BarChart chart{.stacked = true, .horizontal = true, .totals = true};
  std::vector<std::vector<PartBytes>> operations;
  for (size_t i = 0; i < std::min(row.components.size(), kMaxOperations); ++i) {
    chart.categories.push_back(ComponentTitle(row.components[i].name, SweepLanguage::kEnglish));
    operations.push_back(Operations(row.components[i].allocated));
  }
  chart.series = SeriesOf(operations);
  return {.title = "By component", .note = RowTitle(row), .chart = std::move(chart)};
}

Panel ConfigurationsPanel(const SweepAnswer& answer) {
  BarChart chart = ByConfiguration(answer);
  chart.stacked = true;
  std::vector<std::vector<PartBytes>> operations;
  for (const SweepRow& row : answer.rows) operations.push_back(Operations(row));
  chart.series = SeriesOf(operations);
  return {.title = "By configuration", .note = "", .chart = std::move(chart)};
}

}  // namespace

plots::Figure OperationsFigure(const SweepAnswer& answer) {
  plots::Figure figure;
  figure.title = "What forward, backward and optimizer allocate";
  figure.subtitle = SubtitleOf(answer);
  const SweepRow* row = RowToExplain(answer.rows);
  figure.rows.push_back({{ComponentsPanel(row == nullptr ? SweepRow() : *row)}, kOperationsHeight});
  figure.rows.push_back({{ConfigurationsPanel(answer)}, kOperationsHeight});
  figure.notes.push_back("All bytes that were allocated in the run, freed or not: traffic, not what lives at once.");
  return figure;
}

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
