// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/charts/axes.h"
#include "planner/charts/charts.h"
#include "planner/charts/look.h"
#include "planner/charts/text_measure.h"

namespace gpumem::plots {
namespace {

bool IsFinite(Point point) { return std::isfinite(point.x) && std::isfinite(point.y); }

struct Extent {
  double least_x = std::numeric_limits<double>::infinity(), most_x = -least_x, most_y = 0;
  bool empty() const { return most_x < least_x; }
};

Extent ExtentOf(const LineChart& chart) {
  Extent extent;
  for (const LineSeries& series : chart.series) {
    for (const Point& point : series.points) {
      if (!IsFinite(point)) continue;
      extent.least_x = std::min(extent.least_x, point.x);
      extent.most_x = std::max(extent.most_x, point.x);
      extent.most_y = std::max(extent.most_y, point.y);
    }
  }
  if (!chart.x_from_data) extent.least_x = std::min(extent.least_x, chart.x_from);
  return extent;
}

std::vector<Tick> ColumnTicks(const LineChart& chart, const Extent& extent) {
  if (chart.x_ticks.empty()) {
    std::vector<Tick> ticks = NiceTicks(extent.least_x, extent.most_x, 7, chart.x_unit);
    std::erase_if(ticks, [&](const Tick& tick) { return tick.value < extent.least_x || tick.value > extent.most_x; });
    return ticks;
  }
  std::vector<Tick> ticks;
  for (const double value : chart.x_ticks) ticks.push_back({value, ShortLabel(value, chart.x_unit)});
  return ticks;
}

class Plot {
 public:
  Plot(const AxisScale& x, const AxisScale& y, Canvas* canvas) : x_(x), y_(y), canvas_(canvas) {}

  void Add(const LineSeries& series) {
    std::vector<Point> points;
    for (const Point& value : series.points) {
      if (!IsFinite(value)) continue;
      const Point point{x_.At(value.x), y_.At(value.y)};
      if (series.stepped && !points.empty()) points.push_back({point.x, points.back().y});
      points.push_back(point);
    }
    if (points.empty()) return;
    if (series.area) {
      std::vector<Point> outline = points;
      outline.push_back({points.back().x, y_.At(0)});
      outline.push_back({points.front().x, y_.At(0)});
      canvas_->Polygon(std::move(outline), series.solid ? series.color : WithAlpha(series.color, 0.25));
    }
    if (series.line) canvas_->Polyline(points, {series.color, kLineWidth, series.dashed});
    if (!series.marks && points.size() > 1) return;
    for (const Point& point : points) canvas_->Circle(point, kMarkRadius, series.color, Stroke{kPaper, 1.5});
  }

  void Add(const Callout& callout, const Box& inner) {
    if (!IsFinite(callout.at)) return;
    const Point point{x_.At(callout.at.x), y_.At(callout.at.y)};
    canvas_->Circle(point, kMarkRadius * 1.3, callout.color, Stroke{kPaper, 2});
    const double width = TextWidth(callout.text, kLabelSize, true), gap = kMarkRadius * 2;
    const bool to_left = point.x + gap + width > inner.right();
    const double above = point.y - kLabelSize * 0.8,
                 y = above < inner.top + kLabelSize ? point.y + kLabelSize * 1.6 : above;
    DrawTextOnPaper(
        {to_left ? point.x - gap : point.x + gap, y}, callout.text,
        {.size = kLabelSize, .anchor = to_left ? Anchor::kEnd : Anchor::kStart, .bold = true, .color = callout.color},
        canvas_);
  }

 private:
  AxisScale x_, y_;
  Canvas* canvas_;
};

}  // namespace

void Draw(const LineChart& chart, const Box& box, Canvas* canvas) {
  const Extent extent = ExtentOf(chart);
  if (extent.empty()) return DrawNoData(box, canvas);
  std::vector<LegendEntry> entries;
  for (const LineSeries& series : chart.series) entries.push_back({series.name, series.color});
  const double legend = DrawLegend(entries, box, canvas);
  const auto [rows, high] = AxisFromZero(extent.most_y, chart.limit, chart.y_unit, 6);
  const std::vector<Tick> columns = ColumnTicks(chart, extent);
  const double below = kGap + kLabelSize * kLineHeight + (chart.x_title.empty() ? 0 : kLabelSize * kLineHeight);
  const double right = columns.empty() ? kGap : std::max(kGap, TextWidth(columns.back().label, kLabelSize) / 2);
  const Box inner = Inset(box, WidestLabel(rows) + kGap, legend + kLabelSize * 0.5, right, below);
  const double margin = chart.x_ticks.empty() ? 0 : std::min(30.0, inner.width * 0.06);
  const bool one = extent.most_x <= extent.least_x;
  const AxisScale x = {extent.least_x - (one ? 1 : 0), extent.most_x + (one ? 1 : 0), inner.left + margin,
                       inner.right() - margin};
  const AxisScale y = {0, high, inner.bottom(), inner.top};
  DrawRowGrid(rows, y, inner, canvas);
  DrawColumnGrid(columns, x, inner, /*lines=*/false, canvas);
  Plot plot(x, y, canvas);
  for (const LineSeries& series : chart.series) plot.Add(series);
  if (chart.limit.has_value()) DrawLimit(*chart.limit, y, inner, /*down=*/false, canvas);
  for (const Callout& callout : chart.callouts) plot.Add(callout, inner);
  DrawAxisTitle(chart.x_title, inner.center().x, box.bottom(), inner.width, canvas);
}

}  // namespace gpumem::plots
