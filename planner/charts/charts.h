// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a chart shows, as plain values, each with the function that draws it into a box. Any number of values is fine,
// none included (then the chart says "no data"); values that are not finite are left out.
//
//   LineChart chart;
//   chart.series.push_back({"allocated", PaletteColor(0), {{256, 1e9}, {512, 2e9}}});
//   Draw(chart, {0, 0, 600, 400}, &canvas);

#ifndef GPUMEM_PLANNER_CHARTS_CHARTS_H_
#define GPUMEM_PLANNER_CHARTS_CHARTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "planner/charts/canvas.h"
#include "planner/charts/ticks.h"

namespace gpumem::plots {

// Sizes that all charts share, in points. A figure is 1200 points wide and is often seen at a third of that, so text is
// large and lines are thick.

inline constexpr double kFigureTitleSize = 34, kSubtitleSize = 19, kPanelTitleSize = 24, kLabelSize = 17,
                        kSmallestSize = 11;
inline constexpr double kLineWidth = 3.5, kGridWidth = 1.2, kMarkRadius = 6;
inline constexpr double kGap = 8;            // between a thing and its label
inline constexpr double kLineHeight = 1.35;  // of a text's size

// A dashed line across: the device's memory. Where it lies far above all values only its label is shown, so that it
// does not press them flat.
struct Limit {
  double value = 0;
  std::string label{};
};

// A point that is worth words: the peak.
struct Callout {
  Point at{};  // in values
  std::string text{};
  Color color = kInk;
};

struct LineSeries {
  std::string name{};  // "" = not in the legend
  Color color{};
  std::vector<Point> points{};  // in values, ascending in x
  bool line = true, marks = true, area = false, stepped = false, dashed = false;
  bool solid = false;  // the area hides what is behind it: a layer of a stack, whose points are sums, highest first
};

struct LineChart {
  std::string x_title{};
  Unit x_unit = Unit::kNumber, y_unit = Unit::kBytes;
  std::vector<double> x_ticks{};  // where labels stand; empty: round numbers
  std::vector<LineSeries> series{};
  std::optional<Limit> limit{};
  std::vector<Callout> callouts{};
  double x_from = 0;        // where the axis begins, unless a value is less
  bool x_from_data = true;  // it begins at the least value instead
};

struct BarSeries {
  std::string name{};
  Color color{};
  std::vector<double> values{};  // one for each category; missing ones are 0
};

struct BarChart {
  std::string category_title{};
  std::vector<std::string> categories{};
  std::vector<bool> alarms{};  // categories whose labels are red
  Unit unit = Unit::kBytes;
  std::vector<BarSeries> series{};
  bool stacked = false, horizontal = false;
  bool totals = false;  // the sum of each stack beside it, where there is room
  std::optional<Limit> limit{};
};

struct HeatCell {
  enum Kind : uint8_t { kValue, kAlarm, kMissing } kind = kMissing;
  double value = 0;                  // decides the colour of kValue
  std::vector<std::string> lines{};  // shown in the cell
};

struct Heatmap {
  std::string row_title, column_title;
  std::vector<std::string> rows, columns;
  std::vector<std::vector<HeatCell>> cells{};  // [row][column]
  Unit unit = Unit::kBytes;
  std::optional<std::pair<double, double>> range{};  // of the colours; else of the values
  bool key = true;                                   // what the colours mean, at the side
};

struct PieSlice {
  std::string name{};
  Color color{};
  double value = 0;
};

struct PieChart {
  Unit unit = Unit::kBytes;
  std::vector<PieSlice> slices{};
};

// Areas as large as their values: groups, and inside each its parts.
struct TreemapPart {
  std::string name{};
  double value = 0;
};

struct TreemapGroup {
  std::string name{};
  Color color{};
  std::vector<TreemapPart> parts{};
};

struct Treemap {
  Unit unit = Unit::kBytes;
  std::vector<TreemapGroup> groups{};
};

// Rows that begin at 0, each with pieces of it that are filled: segments and their blocks. The first rows are drawn, as
// far as there is room; the others are counted.
struct Span {
  double from = 0, to = 0;
  Color color{};
  bool alarm = false;  // framed
};

struct SpanRow {
  std::string label{};  // left of it
  std::string note{};   // right of it
  double length = 0;
  std::vector<Span> spans{};
};

struct LegendEntry {
  std::string name;
  Color color;
};

struct SpanChart {
  Unit unit = Unit::kBytes;
  std::vector<SpanRow> rows{};
  std::vector<LegendEntry> legend{};  // what the colours of spans are
};

using Chart = std::variant<LineChart, BarChart, Heatmap, PieChart, Treemap, SpanChart>;

void Draw(const LineChart& chart, const Box& box, Canvas* canvas);
void Draw(const BarChart& chart, const Box& box, Canvas* canvas);
void Draw(const Heatmap& chart, const Box& box, Canvas* canvas);
void Draw(const PieChart& chart, const Box& box, Canvas* canvas);
void Draw(const Treemap& chart, const Box& box, Canvas* canvas);
void Draw(const SpanChart& chart, const Box& box, Canvas* canvas);

}  // namespace gpumem::plots

#endif  // GPUMEM_PLANNER_CHARTS_CHARTS_H_
