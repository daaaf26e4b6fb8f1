// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "planner/sweep/digest.h"
#include "planner/sweep/pictures/pictures.h"
#include "planner/sweep/words.h"

namespace gpumem::plan {
namespace {

using plots::BarChart;
using plots::LineChart;
using plots::LineSeries;
using plots::Panel;

constexpr size_t kMaxLines = 5, kMaxAxes = 6;
constexpr double kOverviewHeight = 430;
constexpr double kApart = 0.97;  // a line whose peak is at most this share of another's can be told from it

double Size(uint64_t bytes) { return static_cast<double>(bytes); }

// Peaks along one axis with all others fixed.
struct Line {
  std::string name;
  std::map<double, const SweepRow*> rows;
  uint64_t largest() const {
    uint64_t most = 0;
    for (const auto& [value, row] : rows) most = std::max(most, row->peak_allocated);
    return most;
  }
};

std::vector<Line> LinesAlong(const SweepAnswer& answer, const std::string& axis, std::vector<std::string> others) {
  std::erase(others, axis);
  std::map<std::string, Line> lines;
  for (const SweepRow& row : answer.rows) {
    double value = 0;
    if (!IsPeakKnown(row) || !absl::SimpleAtod(ValueOn(row, axis), &value)) continue;
    const std::string name = others.empty() ? "" : ShortConfiguration(row, others);
    Line& line = lines[name];
    line.name = others.size() == 1 ? absl::StrCat(others[0], " ", name) : name;
    line.rows[value] = &row;
  }
  std::vector<Line> sorted;
  sorted.reserve(lines.size());
  for (auto& [name, line] : lines) sorted.push_back(std::move(line));
  absl::c_stable_sort(sorted, [](const Line& a, const Line& b) { return a.largest() > b.largest(); });
  return sorted;
}

// Of many, some from the largest to the smallest; of those that would hide each other, the one with more points.
std::vector<Line> Spread(std::vector<Line> lines) {
  if (lines.size() <= kMaxLines) return lines;
  std::vector<Line> apart;
  for (Line& line : lines) {
    const bool hidden = !apart.empty() && Size(line.largest()) > kApart * Size(apart.back().largest());
    if (!hidden) {
      apart.push_back(std::move(line));
    } else if (line.rows.size() > apart.back().rows.size()) {
      apart.back() = std::move(line);
    }
  }
  lines = std::move(apart);
  if (lines.size() <= kMaxLines) return lines;
  std::vector<Line> kept;
  kept.reserve(kMaxLines);
  for (size_t i = 0; i < kMaxLines; ++i) kept.push_back(lines[i * (lines.size() - 1) / (kMaxLines - 1)]);
  return kept;
}

Panel NumericPanel(const SweepAnswer& answer, const std::string& axis, const std::vector<std::string>& axes) {
  LineChart chart;
  chart.limit = CapacityLimit(answer);
  for (const std::string& value : ValuesOf(answer.rows, axis)) {
    double number = 0;
    if (absl::SimpleAtod(value, &number)) chart.x_ticks.push_back(number);
  }
  const std::vector<Line> all = LinesAlong(answer, axis, axes), lines = Spread(all);
  LineSeries beyond{.name = "does not fit", .color = plots::kAlarm, .line = false};
  for (size_t i = 0; i < lines.size(); ++i) {
    LineSeries series{.name = lines[i].name, .color = plots::PaletteColor(i)};
    for (const auto& [value, row] : lines[i].rows) {
      series.points.push_back({value, Size(row->peak_allocated)});
      if (row->state == RowState::kOutOfMemory) beyond.points.push_back(series.points.back());
    }
    chart.series.push_back(std::move(series));
  }
  if (!beyond.points.empty()) chart.series.push_back(std::move(beyond));
  std::vector<std::string> others = axes;
  std::erase(others, axis);
  Panel panel{.title = absl::StrCat("Peak by ", axis), .chart = std::move(chart)};
  if (others.size() > 1) panel.note = absl::StrCat("lines: ", absl::StrJoin(others, " · "));
  if (lines.size() < all.size()) absl::StrAppend(&panel.note, " (", lines.size(), " of ", all.size(), ")");
  return panel;
}

// Values that are no numbers have no order: bars of the largest peak with each.
Panel NamedPanel(const SweepAnswer& answer, const std::string& axis) {
  BarChart chart{.totals = true, .limit = CapacityLimit(answer)};
  chart.series.push_back({"", plots::PaletteColor(0), {}});
  for (const std::string& value : ValuesOf(answer.rows, axis)) {
    uint64_t most = 0;
    for (const SweepRow& row : answer.rows) {
      if (IsPeakKnown(row) && ValueOn(row, axis) == value) most = std::max(most, row.peak_allocated);
    }
    chart.categories.push_back(value);
    chart.series[0].values.push_back(Size(most));
  }
  return {.title = absl::StrCat("Largest peak by ", axis), .chart = std::move(chart)};
}

Panel AxisPanel(const SweepAnswer& answer, const std::string& axis, const std::vector<std::string>& axes) {
  double number = 0;
  const bool numeric = absl::c_all_of(ValuesOf(answer.rows, axis),
                                      [&](const std::string& value) { return absl::SimpleAtod(value, &number); });
  return numeric ? NumericPanel(answer, axis, axes) : NamedPanel(answer, axis);
}

Panel PeaksPanel(const SweepAnswer& answer) {
  BarChart chart = ByConfiguration(answer);
  chart.limit = CapacityLimit(answer);
  chart.series = {{"allocated", plots::PaletteColor(0), {}},
                  {"reserved", plots::PaletteColor(4), {}},
                  {"process, as nvidia-smi shows it", plots::PaletteColor(1), {}}};
  for (const SweepRow& row : answer.rows) {
    chart.series[0].values.push_back(Size(row.peak_allocated));
    chart.series[1].values.push_back(Size(row.peak_reserved));
    chart.series[2].values.push_back(Size(row.peak_process));
  }
  return {.title = "Peaks of each configuration", .note = "red labels: does not fit, or no answer", .chart = chart};
}

Panel TimePanel(const SweepAnswer& answer) {
  BarChart chart = ByConfiguration(answer);
  chart.unit = plots::Unit::kSeconds;
  chart.series = {{"", plots::PaletteColor(3), {}}};
  for (const SweepRow& row : answer.rows) chart.series[0].values.push_back(row.seconds);
  return {.title = "Time of each run", .chart = std::move(chart)};
}

Panel SharePanel(const SweepAnswer& answer) {
  std::map<RowState, int> counts;
  for (const SweepRow& row : answer.rows) ++counts[row.state];
  if (counts.size() == 1) {  // a whole circle says nothing
    const auto& [state, count] = *counts.begin();
    BarChart all{.categories = {std::string(StateTitle(state, SweepLanguage::kEnglish))}, .unit = plots::Unit::kNumber};
    all.series = {{"", StateColor(state), {1.0 * count}}};
    all.horizontal = all.totals = true;
    return {.title = "How many fit", .chart = std::move(all)};
  }
  plots::PieChart chart{.unit = plots::Unit::kNumber};
  for (const auto& [state, count] : counts)
    chart.slices.push_back({std::string(StateTitle(state, SweepLanguage::kEnglish)), StateColor(state), 1.0 * count});
  return {.title = "How many fit", .chart = std::move(chart)};
}

}  // namespace

plots::Figure OverviewFigure(const SweepAnswer& answer) {
  plots::Figure figure;
  figure.title =
      absl::StrCat("Memory of ", answer.rows.size(), answer.rows.size() == 1 ? " configuration" : " configurations");
  figure.subtitle = SubtitleOf(answer);
  std::vector<std::string> axes = VariedAxes(answer.rows);
  if (axes.size() > kMaxAxes) {
    figure.notes.push_back(absl::StrCat(axes.size() - kMaxAxes, " more axes are in the CSV file."));
  }
  std::vector<Panel> panels;
  for (size_t i = 0; i < std::min(axes.size(), kMaxAxes); ++i) panels.push_back(AxisPanel(answer, axes[i], axes));
  const bool wide = panels.size() % 2 == 0;
  if (!wide) panels.push_back(SharePanel(answer));
  for (size_t i = 0; i + 1 < panels.size(); i += 2)
    figure.rows.push_back({{panels[i], panels[i + 1]}, kOverviewHeight});
  if (wide) {
    figure.rows.push_back({{PeaksPanel(answer)}, kOverviewHeight});
    figure.rows.push_back({{TimePanel(answer), SharePanel(answer)}, kOverviewHeight * 0.85});
  } else {
    figure.rows.push_back({{PeaksPanel(answer), TimePanel(answer)}, kOverviewHeight});
  }
  for (const std::string& axis : AxesOf(answer.rows)) {
    if (!absl::c_linear_search(axes, axis))
      figure.notes.push_back(absl::StrCat(axis, " was ", ValueOn(answer.rows.front(), axis), " throughout."));
  }
  return figure;
}

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
