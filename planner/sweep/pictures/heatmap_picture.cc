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

using plots::HeatCell;
using plots::Heatmap;

constexpr size_t kMaxPanels = 6, kPanelsInARow = 3;

// How many times as much memory the largest value of an axis takes; 1 where that is not known.
double EffectOf(const SweepAnswer& answer, const std::string& axis) {
  for (const AxisScaling& scaling : answer.scaling) {
    if (scaling.axis != axis || scaling.allocated_bytes.empty()) continue;
    const auto [least, most] = std::minmax_element(scaling.allocated_bytes.begin(), scaling.allocated_bytes.end());
    return *least > 0 ? static_cast<double>(*most) / static_cast<double>(*least) : 1;
  }
  return 1;
}

// Those with most values first; of equals, that with more effect.
std::vector<std::string> ByImportance(const SweepAnswer& answer) {
  std::vector<std::string> axes = VariedAxes(answer.rows);
  absl::c_stable_sort(axes, [&](const std::string& a, const std::string& b) {
    const size_t of_a = ValuesOf(answer.rows, a).size(), of_b = ValuesOf(answer.rows, b).size();
    return of_a != of_b ? of_a > of_b : EffectOf(answer, a) > EffectOf(answer, b);
  });
  return axes;
}

HeatCell CellOf(const SweepRow& row) {
  const double need = static_cast<double>(NeedOf(row));
  const std::string size = need > 0 ? plots::ShortLabel(need, plots::Unit::kBytes) : "";
  if (row.state == RowState::kFits && need > 0) return {HeatCell::kValue, need, {size}};
  if (row.state != RowState::kOutOfMemory)
    return {HeatCell::kMissing, 0, {std::string(StateTitle(row.state, SweepLanguage::kEnglish))}};
  HeatCell cell{HeatCell::kAlarm, need, {"OOM"}};
  if (need > 0) cell.lines.push_back(size);
  return cell;
}

Heatmap MapOf(const SweepAnswer& answer, const std::vector<const SweepRow*>& rows,
              const std::vector<std::string>& axes) {
  Heatmap map;
  const std::string across = axes.empty() ? "" : axes[0], down = axes.size() < 2 ? "" : axes[1];
  map.column_title = across;
  map.row_title = down;
  map.columns = across.empty() ? std::vector<std::string>{""} : ValuesOf(answer.rows, across);
  map.rows = down.empty() ? std::vector<std::string>{""} : ValuesOf(answer.rows, down);
  map.cells.assign(map.rows.size(), std::vector<HeatCell>(map.columns.size()));
  for (const SweepRow* row : rows) {
    const auto column = absl::c_find(map.columns, across.empty() ? "" : ValueOn(*row, across)) - map.columns.begin();
    const auto line = absl::c_find(map.rows, down.empty() ? "" : ValueOn(*row, down)) - map.rows.begin();
    map.cells[static_cast<size_t>(line)][static_cast<size_t>(column)] = CellOf(*row);
  }
  return map;
}

// Over all panels, so that the same colour is the same size.
std::pair<double, double> RangeOf(const SweepAnswer& answer) {
  std::pair<double, double> range{0, 0};
  for (const SweepRow& row : answer.rows) {
    const double need = static_cast<double>(NeedOf(row));
    if (row.state != RowState::kFits || need == 0) continue;
    range.first = range.second == 0 ? need : std::min(range.first, need);
    range.second = std::max(range.second, need);
  }
  return range;
}

struct HeatmapGroup {
  std::string title;
  std::vector<const SweepRow*> rows;
};

// Rows by the values of the further axes, in the order of the rows.
std::vector<HeatmapGroup> HeatmapGroupsOf(const SweepAnswer& answer, const std::vector<std::string>& further) {
  std::vector<HeatmapGroup> groups;
  for (const SweepRow& row : answer.rows) {
    std::string title;
    for (const std::string& axis : further)
      absl::StrAppend(&title, title.empty() ? "" : ", ", axis, " ", ValueOn(row, axis));
    auto group = absl::c_find_if(groups, [&](const HeatmapGroup& each) { return each.title == title; });
    if (group == groups.end()) group = groups.insert(groups.end(), HeatmapGroup{title, {}});
    group->rows.push_back(&row);
  }
  return groups;
}

}  // namespace

plots::Figure HeatmapFigure(const SweepAnswer& answer) {
  plots::Figure figure;
  figure.title = "GPU memory needed";
  figure.subtitle = SubtitleOf(answer);
  const std::vector<std::string> axes = ByImportance(answer);
  const std::vector<std::string> further(axes.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(axes.size(), 2)),
                                         axes.end());
  std::vector<HeatmapGroup> groups = HeatmapGroupsOf(answer, further);
  const size_t all = groups.size();
  if (all > kMaxPanels) {
    groups.erase(groups.begin(), groups.end() - static_cast<std::ptrdiff_t>(kMaxPanels));
    figure.notes.push_back(
        absl::StrCat("The last ", kMaxPanels, " of ", all, " combinations of the further axes; the CSV file has all."));
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i % kPanelsInARow == 0) figure.rows.push_back({{}, groups.size() == 1 ? 560.0 : 380.0});
    Heatmap map = MapOf(answer, groups[i].rows, axes);
    map.range = RangeOf(answer);
    map.key = groups.size() == 1;
    figure.rows.back().panels.push_back({.title = groups[i].title, .note = "", .chart = std::move(map)});
  }
  figure.notes.insert(
      figure.notes.begin(),
      "What the whole process needs, as nvidia-smi shows it. OOM: more than the device has, with the size "
      "that it would need where that is known.");
  return figure;
}

}  // namespace gpumem::plan
