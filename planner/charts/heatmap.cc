// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/charts/axes.h"
#include "planner/charts/charts.h"
#include "planner/charts/text_measure.h"

namespace gpumem::plots {
namespace {

constexpr double kBarWidth = 18;  // of the colours' key

std::pair<double, double> RangeOf(const Heatmap& chart) {
  if (chart.range.has_value()) return *chart.range;
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const std::vector<HeatCell>& row : chart.cells) {
    for (const HeatCell& cell : row) {
      if (cell.kind != HeatCell::kValue || !std::isfinite(cell.value)) continue;
      least = std::min(least, cell.value);
      most = std::max(most, cell.value);
    }
  }
  return least > most ? std::pair{0.0, 0.0} : std::pair{least, most};
}

double ShareOf(double value, const std::pair<double, double>& range) {
  return range.second > range.first ? (value - range.first) / (range.second - range.first) : 0.3;
}

Color ColorOf(const HeatCell& cell, const std::pair<double, double>& range) {
  switch (cell.kind) {
    case HeatCell::kValue:
      return ScaleColor(0.06 + 0.84 * ShareOf(cell.value, range));
    case HeatCell::kAlarm:
      return Mix(kAlarm, kPaper, 0.12);
    case HeatCell::kMissing:
      return kMissing;
  }
  return kMissing;
}

// The largest size at which the words of every cell fit; 0 where that would be too small to read.
double TextSize(const Heatmap& chart, double width, double height) {
  double size = 24;
  for (const std::vector<HeatCell>& row : chart.cells) {
    for (const HeatCell& cell : row) {
      if (cell.lines.empty()) continue;
      size = std::min(size, height * 0.9 / kLineHeight / static_cast<double>(cell.lines.size()));
      for (const std::string& line : cell.lines) {
        const double unit = TextWidth(line, 1, /*bold=*/true);
        if (unit > 0) size = std::min(size, width * 0.88 / unit);
      }
    }
  }
  return size < kSmallestSize - 2 ? 0 : size;
}

void DrawCell(const HeatCell& cell, const Box& box, Color color, double text_size, Canvas* canvas) {
  canvas->Rectangle(box, color, Stroke{kPaper, 2});
  if (text_size <= 0) return;
  const double height = text_size * kLineHeight;
  const double lines = static_cast<double>(cell.lines.size());
  double base = box.center().y - lines * height / 2 + text_size;
  for (const std::string& line : cell.lines) {
    canvas->Text({box.center().x, base}, line,
                 {.size = text_size,
                  .anchor = Anchor::kMiddle,
                  .bold = cell.kind != HeatCell::kMissing,
                  .color = cell.kind == HeatCell::kMissing ? kAside : TextColorOn(color)});
    base += height;
  }
}

// What the colours mean, right of the cells.
void DrawKey(const Heatmap& chart, const std::pair<double, double>& range, const Box& inner, Canvas* canvas) {
  constexpr int kSteps = 40;
  const double left = inner.right() + 2 * kGap, step = inner.height / kSteps;
  for (int i = 0; i < kSteps; ++i) {
    const double share = (i + 0.5) / kSteps;
    canvas->Rectangle({left, inner.bottom() - (i + 1) * step, kBarWidth, step + 0.5}, ScaleColor(0.06 + 0.84 * share));
  }
  const double text = left + kBarWidth + 6;
  canvas->Text({text, inner.top + kLabelSize * 0.8}, ShortLabel(range.second, chart.unit), {.size = kLabelSize});
  canvas->Text({text, inner.bottom()}, ShortLabel(range.first, chart.unit), {.size = kLabelSize});
}

}  // namespace

void Draw(const Heatmap& chart, const Box& box, Canvas* canvas) {
  if (chart.rows.empty() || chart.columns.empty()) return DrawNoData(box, canvas);
  const std::pair<double, double> range = RangeOf(chart);
  const double title = kLabelSize * kLineHeight;
  double names = 0;
  for (const std::string& name : chart.rows) names = std::max(names, TextWidth(name, kLabelSize));
  names = std::min(names, box.width * 0.25);
  const double key =
      chart.key && range.second > range.first ? kBarWidth + 3 * kGap + TextWidth("1023 MiB", kLabelSize) : 0;
  const double row_title = chart.row_title.empty() ? 0 : title;
  const double width = box.width - names - kGap - row_title - key;
  const double slot = width / static_cast<double>(chart.columns.size());
  const CategoryLabels labels = LayOutCategories(chart.columns, slot, 90, row_title + names + slot / 2);
  const Box inner = Inset(box, row_title + names + kGap, 0, key, labels.height + kGap + title);
  const double height = inner.height / static_cast<double>(chart.rows.size());
  const double text_size = TextSize(chart, slot, height);
  for (size_t row = 0; row < chart.rows.size(); ++row) {
    const double top = inner.top + height * static_cast<double>(row);
    if (height >= kLabelSize * 0.8) {
      canvas->Text({inner.left - kGap, top + height / 2 + kLabelSize * 0.35},
                   FitText(chart.rows[row], kLabelSize, names), {.size = kLabelSize, .anchor = Anchor::kEnd});
    }
    for (size_t column = 0; column < chart.columns.size(); ++column) {
      const HeatCell cell =
          row < chart.cells.size() && column < chart.cells[row].size() ? chart.cells[row][column] : HeatCell{};
      DrawCell(cell, {inner.left + slot * static_cast<double>(column), top, slot, height}, ColorOf(cell, range),
               text_size, canvas);
    }
  }
  for (size_t column = 0; column < labels.texts.size(); ++column) {
    canvas->Text({inner.left + slot * (static_cast<double>(column) + 0.5), inner.bottom() + kGap + kLabelSize * 0.8},
                 labels.texts[column],
                 {.size = kLabelSize,
                  .anchor = labels.slanting ? Anchor::kEnd : Anchor::kMiddle,
                  .degrees = labels.slanting ? -40.0 : 0});
  }
  DrawAxisTitle(chart.column_title, inner.center().x, box.bottom(), inner.width, canvas);
  canvas->Text({box.left + kLabelSize * 0.8, inner.center().y},
               FitText(chart.row_title, kLabelSize, inner.height, /*bold=*/true),
               {.size = kLabelSize, .anchor = Anchor::kMiddle, .bold = true, .degrees = -90, .color = kAside});
  if (key > 0) DrawKey(chart, range, inner, canvas);
}

}  // namespace gpumem::plots
