// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "planner/charts/axes.h"
#include "planner/charts/charts.h"
#include "planner/charts/text_measure.h"

namespace gpumem::plots {
namespace {

constexpr double kBeyondBox = 24;  // a slanting label may reach into the gap between panels

double ValueOf(const BarSeries& series, size_t category) {
  if (category >= series.values.size() || !std::isfinite(series.values[category])) return 0;
  return std::max(series.values[category], 0.0);
}

double TotalOf(const BarChart& chart, size_t category) {
  double total = 0;
  for (const BarSeries& series : chart.series) {
    const double value = ValueOf(series, category);
    total = chart.stacked ? total + value : std::max(total, value);
  }
  return total;
}

double MostOf(const BarChart& chart) {
  double most = 0;
  for (size_t i = 0; i < chart.categories.size(); ++i) most = std::max(most, TotalOf(chart, i));
  return most;
}

bool IsAlarm(const BarChart& chart, size_t category) {
  return category < chart.alarms.size() && chart.alarms[category];
}

// The bars of one category between `begin` and `end` along the axis of categories.
void DrawCategory(const BarChart& chart, size_t category, double begin, double end, const AxisScale& scale,
                  Canvas* canvas) {
  double sum = 0;
  const double each = chart.stacked ? end - begin : (end - begin) / static_cast<double>(chart.series.size());
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const double value = ValueOf(chart.series[i], category);
    const double from = chart.stacked ? sum : 0;
    sum = from + value;
    if (value <= 0) continue;
    const double side = begin + (chart.stacked ? 0 : each * static_cast<double>(i));
    const double low = scale.At(from), high = scale.At(sum);
    canvas->Rectangle(chart.horizontal ? Box{low, side, high - low, each} : Box{side, high, each, low - high},
                      chart.series[i].color);
  }
}

void DrawVerticalLabels(const BarChart& chart, const CategoryLabels& labels, const Box& inner, double slot,
                        Canvas* canvas) {
  for (size_t i = 0; i < labels.texts.size(); ++i) {
    const double x = inner.left + (static_cast<double>(i) + 0.5) * slot;
    const TextLook look = {.size = kLabelSize,
                           .anchor = labels.slanting ? Anchor::kEnd : Anchor::kMiddle,
                           .degrees = labels.slanting ? -40.0 : 0,
                           .color = IsAlarm(chart, i) ? kAlarm : kInk};
    canvas->Text({x + (labels.slanting ? kLabelSize * 0.3 : 0), inner.bottom() + kGap + kLabelSize * 0.8},
                 labels.texts[i], look);
  }
}

void DrawVertical(const BarChart& chart, const Box& box, Canvas* canvas) {
  const auto [ticks, high] = AxisFromZero(MostOf(chart) * (chart.totals ? 1.06 : 1), chart.limit, chart.unit, 6);
  const double left = WidestLabel(ticks) + kGap;
  const double count = static_cast<double>(chart.categories.size()), slot = (box.width - left - kGap) / count;
  const CategoryLabels labels =
      LayOutCategories(chart.categories, slot, std::min(110.0, box.height * 0.35), left + slot / 2 + kBeyondBox);
  const double title = chart.category_title.empty() ? 0 : kLabelSize * kLineHeight;
  const Box inner =
      Inset(box, left, kLabelSize * 0.5 + RoomForLimit(chart.limit, high), kGap, labels.height + kGap + title);
  const AxisScale scale = {0, high, inner.bottom(), inner.top};
  DrawRowGrid(ticks, scale, inner, canvas);
  const double gap = slot * (count > 40 ? 0.1 : 0.18);
  const double bar = std::min(slot - 2 * gap, 110.0);
  for (size_t i = 0; i < chart.categories.size(); ++i) {
    const double middle = inner.left + (static_cast<double>(i) + 0.5) * slot;
    DrawCategory(chart, i, middle - bar / 2, middle + bar / 2, scale, canvas);
    const double total = TotalOf(chart, i);
    const std::string text = ShortLabel(total, chart.unit);
    if (chart.totals && total > 0 && TextWidth(text, kLabelSize * 0.9) <= slot)
      canvas->Text({middle, scale.At(total) - 5}, text, {.size = kLabelSize * 0.9, .anchor = Anchor::kMiddle});
  }
  if (chart.limit.has_value()) DrawLimit(*chart.limit, scale, inner, /*down=*/false, canvas);
  DrawVerticalLabels(chart, labels, inner, slot, canvas);
  DrawAxisTitle(chart.category_title, inner.center().x, box.bottom(), inner.width, canvas);
}

void DrawHorizontal(const BarChart& chart, const Box& box, Canvas* canvas) {
  double names = 0;
  for (const std::string& name : chart.categories) names = std::max(names, TextWidth(name, kLabelSize));
  names = std::min(names, box.width * 0.35);
  const double totals = chart.totals ? TextWidth("1023 MiB", kLabelSize) + kGap : 0;
  const auto [ticks, high] = AxisFromZero(MostOf(chart), chart.limit, chart.unit, 5);
  const double right = std::max(kGap, TextWidth(ticks.back().label, kLabelSize) / 2) + totals;
  const Box inner = Inset(box, names + kGap, RoomForLimit(chart.limit, high), right, kLabelSize * kLineHeight + kGap);
  const AxisScale scale = {0, high, inner.left, inner.right()};
  DrawColumnGrid(ticks, scale, inner, /*lines=*/true, canvas);
  const double slot = inner.height / static_cast<double>(chart.categories.size());
  const double bar = std::min(slot * 0.72, 64.0);
  for (size_t i = 0; i < chart.categories.size(); ++i) {
    const double middle = inner.top + (static_cast<double>(i) + 0.5) * slot;
    DrawCategory(chart, i, middle - bar / 2, middle + bar / 2, scale, canvas);
    const double base = middle + kLabelSize * 0.35;
    if (slot < kLabelSize * 0.9) continue;  // no room for words
    canvas->Text({inner.left - kGap, base}, FitText(chart.categories[i], kLabelSize, names),
                 {.size = kLabelSize, .anchor = Anchor::kEnd, .color = IsAlarm(chart, i) ? kAlarm : kInk});
    const double total = TotalOf(chart, i);
    if (chart.totals && total > 0)
      canvas->Text({scale.At(total) + kGap, base}, ShortLabel(total, chart.unit), {.size = kLabelSize});
  }
  if (chart.limit.has_value()) DrawLimit(*chart.limit, scale, inner, /*down=*/true, canvas);
}

}  // namespace

void Draw(const BarChart& chart, const Box& box, Canvas* canvas) {
  if (chart.categories.empty() || chart.series.empty()) return DrawNoData(box, canvas);
  std::vector<LegendEntry> entries;
  for (const BarSeries& series : chart.series) entries.push_back({series.name, series.color});
  const double legend = DrawLegend(entries, box, canvas);
  const Box rest = Inset(box, 0, legend, 0, 0);
  chart.horizontal ? DrawHorizontal(chart, rest, canvas) : DrawVertical(chart, rest, canvas);
}

namespace {

constexpr double kRow = 24, kBetweenRows = 7;

}  // namespace

void Draw(const SpanChart& chart, const Box& box, Canvas* canvas) {
  double longest = 0, label = 0, note = 0;
  for (const SpanRow& row : chart.rows) {
    if (std::isfinite(row.length)) longest = std::max(longest, row.length);
    label = std::max(label, TextWidth(row.label, kLabelSize));
    note = std::max(note, TextWidth(row.note, kLabelSize));
  }
  if (!(longest > 0)) return DrawNoData(box, canvas);
  const double legend = DrawLegend(chart.legend, box, canvas);
  const Box inner = Inset(box, label + kGap, legend, note + kGap, kLabelSize * kLineHeight);
  const auto room = static_cast<size_t>(std::max(inner.height / (kRow + kBetweenRows), 1.0));
  const double scale = inner.width / longest;
  double top = inner.top;
  for (size_t i = 0; i < std::min(room, chart.rows.size()); ++i, top += kRow + kBetweenRows) {
    const SpanRow& row = chart.rows[i];
    const double middle = top + kRow / 2 + kLabelSize * 0.35;
    canvas->Text({inner.left - kGap, middle}, row.label, {.size = kLabelSize, .anchor = Anchor::kEnd, .color = kAside});
    canvas->Rectangle({inner.left, top, row.length * scale, kRow}, kMissing);
    for (const Span& span : row.spans) {
      const Box piece{inner.left + span.from * scale, top, std::max((span.to - span.from) * scale, 0.6), kRow};
      canvas->Rectangle(piece, span.color, Stroke{span.alarm ? kAlarm : kPaper, span.alarm ? 3 : 0.4});
    }
    canvas->Text({inner.left + row.length * scale + kGap, middle}, row.note, {.size = kLabelSize, .color = kAside});
  }
  if (chart.rows.size() > room) {
    canvas->Text({inner.left, box.bottom() - 4}, absl::StrCat(chart.rows.size() - room, " smaller ones are not drawn"),
                 {.size = kLabelSize, .color = kAside});
  }
}

}  // namespace gpumem::plots
