// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "planner/sweep/digest.h"
#include "planner/sweep/pictures/picture_parts.h"
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

}  // namespace gpumem::plan
