// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "planner/charts/axes.h"
#include "planner/charts/charts.h"
#include "planner/charts/text_measure.h"

namespace gpumem::plots {
namespace {

constexpr double kTextHeight = 1.1;  // of a label, in its size

bool CanBeDrawn(Point point) { return std::isfinite(point.x) && std::isfinite(point.y); }

// Whether a part of the segment lies in the box (Liang and Barsky's clipping).
bool Meets(Point from, Point to, const Box& box) {
  double first = 0, last = 1;
  const auto cut = [&](double step, double room) {  // keeps where step * t <= room
    if (step == 0) return room >= 0;
    (step < 0 ? first : last) = step < 0 ? std::max(first, room / step) : std::min(last, room / step);
    return first <= last;
  };
  const double x = to.x - from.x, y = to.y - from.y;
  return cut(-x, from.x - box.left) && cut(x, box.right() - from.x) && cut(-y, from.y - box.top) &&
         cut(y, box.bottom() - from.y);
}

// "step 1.2" is none: where all values of the axis are whole its ticks are.
bool IsWhole(double value) { return value == std::round(value); }

struct Extent {
  double least_x = std::numeric_limits<double>::infinity(), most_x = -least_x, most_y = 0;
  bool is_whole = true;  // all x
  bool empty() const { return most_x < least_x; }
};

Extent ExtentOf(const LineChart& chart) {
  Extent extent;
  for (const LineSeries& series : chart.series) {
    for (const Point& point : series.points) {
      if (!CanBeDrawn(point)) continue;
      extent.least_x = std::min(extent.least_x, point.x);
      extent.most_x = std::max(extent.most_x, point.x);
      extent.most_y = std::max(extent.most_y, point.y);
      extent.is_whole = extent.is_whole && IsWhole(point.x);
    }
  }
  if (!chart.x_from_data) extent.least_x = std::min(extent.least_x, chart.x_from);
  return extent;
}

std::vector<Tick> ColumnTicks(const LineChart& chart, const Extent& extent) {
  if (chart.x_ticks.empty()) {
    std::vector<Tick> ticks = NiceTicks(extent.least_x, extent.most_x, 7, chart.x_unit);
    std::erase_if(ticks, [&](const Tick& tick) { return tick.value < extent.least_x || tick.value > extent.most_x; });
    if (chart.x_unit == Unit::kNumber && extent.is_whole)
      std::erase_if(ticks, [](const Tick& tick) { return !IsWhole(tick.value); });
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
      if (!CanBeDrawn(value)) continue;
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
    if (series.marks || points.size() == 1) {
      for (const Point& point : points) canvas_->Circle(point, kMarkRadius, series.color, Stroke{kPaper, 1.5});
    }
    lines_.push_back(std::move(points));
  }

  // Beside its point, where it hides least of the lines.
  void Add(const Callout& callout, const Box& inner) {
    if (!CanBeDrawn(callout.at)) return;
    const Point point{x_.At(callout.at.x), y_.At(callout.at.y)};
    const double width = TextWidth(callout.text, kLabelSize, true), gap = kMarkRadius * 2;
    std::optional<Box> best;
    size_t fewest = 0;
    for (const double down : {-0.8, 1.6, 0.35, -2.2, 3.0}) {
      for (const bool to_left : {false, true}) {
        const Box box{to_left ? point.x - gap - width : point.x + gap, point.y + kLabelSize * (down - kTextHeight),
                      width, kLabelSize * kTextHeight};
        const bool inside = box.left >= inner.left && box.right() <= inner.right() && box.top >= inner.top &&
                            box.bottom() <= inner.bottom();
        const size_t hidden = inside ? SegmentsIn(box) : SIZE_MAX;
        if (best.has_value() && hidden >= fewest) continue;
        best = box;
        fewest = hidden;
      }
    }
    canvas_->Circle(point, kMarkRadius * 1.3, callout.color, Stroke{kPaper, 2});
    DrawTextOnPaper({std::clamp(best->left, inner.left, std::max(inner.left, inner.right() - width)), best->bottom()},
                    callout.text, {.size = kLabelSize, .bold = true, .color = callout.color}, canvas_);
  }

 private:
  size_t SegmentsIn(const Box& box) const {
    size_t count = 0;
    for (const std::vector<Point>& line : lines_) {
      for (size_t i = 1; i < line.size(); ++i) count += Meets(line[i - 1], line[i], box) ? 1 : 0;
    }
    return count;
  }

  AxisScale x_, y_;
  Canvas* canvas_;
  std::vector<std::vector<Point>> lines_;  // as drawn
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
  const Box inner =
      Inset(box, WidestLabel(rows) + kGap, legend + kLabelSize * 0.5 + RoomForLimit(chart.limit, high), right, below);
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
