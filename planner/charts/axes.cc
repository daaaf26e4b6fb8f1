// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/axes.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "planner/charts/charts.h"
#include "planner/charts/text_measure.h"

namespace gpumem::plots {
namespace {

constexpr double kFarLimit = 1.8;  // times the largest value: from here on the limit is only told
constexpr double kSlant = 40;      // degrees
constexpr size_t kMaxLegendRows = 6;
constexpr double kSwatch = 16;

}  // namespace

Box Inset(const Box& box, double left, double top, double right, double bottom) {
  return {box.left + left, box.top + top, std::max(box.width - left - right, 1.0),
          std::max(box.height - top - bottom, 1.0)};
}

ValueAxis AxisFromZero(double most, const std::optional<Limit>& limit, Unit unit, size_t count) {
  if (!(most > 0) || !std::isfinite(most)) most = limit.has_value() && limit->value > 0 ? limit->value : 1;
  if (limit.has_value() && limit->value <= most * kFarLimit) most = std::max(most, limit->value);
  ValueAxis axis{NiceTicks(0, most, count, unit), most * 1.06};
  std::erase_if(axis.ticks, [&](const Tick& tick) { return tick.value > axis.high; });
  if (axis.ticks.size() < 2) axis = {NiceTicks(0, most, count, unit), NiceTicks(0, most, count, unit).back().value};
  return axis;
}

double WidestLabel(const std::vector<Tick>& ticks) {
  double widest = 0;
  for (const Tick& tick : ticks) widest = std::max(widest, TextWidth(tick.label, kLabelSize));
  return widest;
}

void DrawRowGrid(const std::vector<Tick>& ticks, const AxisScale& scale, const Box& inner, Canvas* canvas) {
  for (const Tick& tick : ticks) {
    const double y = scale.At(tick.value);
    const bool is_base = tick.value == scale.low;
    canvas->Line({inner.left, y}, {inner.right(), y}, {is_base ? kAside : kGrid, kGridWidth});
    canvas->Text({inner.left - kGap, y + kLabelSize * 0.35}, tick.label,
                 {.size = kLabelSize, .anchor = Anchor::kEnd, .color = kInk});
  }
}

void DrawColumnGrid(const std::vector<Tick>& ticks, const AxisScale& scale, const Box& inner, bool lines,
                    Canvas* canvas) {
  const auto half = [](const Tick& tick) { return TextWidth(tick.label, kLabelSize) / 2 + kGap / 2; };
  double taken = -1e9;
  for (size_t i = 0; i < ticks.size(); ++i) {
    const double x = scale.At(ticks[i].value);
    if (lines) canvas->Line({x, inner.top}, {x, inner.bottom()}, {kGrid, kGridWidth});
    if (!lines) canvas->Line({x, inner.bottom()}, {x, inner.bottom() + 5}, {kAside, kGridWidth});
    const bool is_last = i + 1 == ticks.size();
    const double last_begins = scale.At(ticks.back().value) - half(ticks.back());
    if (x - half(ticks[i]) < taken || (!is_last && x + half(ticks[i]) > last_begins)) continue;
    taken = x + half(ticks[i]);
    canvas->Text({x, inner.bottom() + kGap + kLabelSize * 0.9}, ticks[i].label,
                 {.size = kLabelSize, .anchor = Anchor::kMiddle});
  }
}

double RoomForLimit(const std::optional<Limit>& limit, double high) {
  return limit.has_value() && limit->value > high ? kLabelSize * 1.2 : 0;
}

void DrawLimit(const Limit& limit, const AxisScale& scale, const Box& inner, bool down, Canvas* canvas) {
  const Stroke stroke{kAlarm, 2.5, /*dashed=*/true};
  const TextLook look{.size = kLabelSize * 0.95, .anchor = Anchor::kEnd, .color = kAlarm};
  if (limit.value > scale.high) {
    canvas->Text({inner.right(), inner.top - kLabelSize * 0.5}, absl::StrCat(limit.label, " (off scale)"), look);
    return;
  }
  const double at = scale.At(limit.value);
  if (down) {
    canvas->Line({at, inner.top}, {at, inner.bottom()}, stroke);
    DrawTextOnPaper({at - 5, inner.bottom() - 7}, limit.label, look, canvas);
  } else {
    canvas->Line({inner.left, at}, {inner.right(), at}, stroke);
    const bool below = at - inner.top < kLabelSize * 1.5;
    DrawTextOnPaper({inner.left + 6, below ? at + kLabelSize * 1.1 : at - 6}, limit.label,
                    {.size = look.size, .anchor = Anchor::kStart, .color = kAlarm}, canvas);
  }
}

CategoryLabels LayOutCategories(const std::vector<std::string>& labels, double slot, double most_height,
                                double left_room) {
  CategoryLabels laid{labels};
  double widest = 0;
  for (const std::string& label : labels) widest = std::max(widest, TextWidth(label, kLabelSize));
  if (widest + kGap <= slot || labels.size() < 2) {
    for (std::string& text : laid.texts) text = FitText(text, kLabelSize, slot);
    laid.height = kLabelSize * kLineHeight;
    return laid;
  }
  // Short ones (numbers) read better level and thinned out than all of them slanting.
  laid.slanting = widest > 4 * kLabelSize;
  const double needed = laid.slanting ? kLabelSize * 1.5 : widest + kGap;
  const size_t every = static_cast<size_t>(std::max(1.0, std::ceil(needed / std::max(slot, 0.01))));
  const double sine = std::sin(kSlant * std::numbers::pi / 180), cosine = std::cos(kSlant * std::numbers::pi / 180);
  const double most_length = std::min(most_height / sine - kLabelSize, left_room / cosine);
  for (size_t i = 0; i < laid.texts.size(); ++i) {
    if (i % every != 0) laid.texts[i].clear();
    if (laid.slanting) laid.texts[i] = FitText(laid.texts[i], kLabelSize, most_length);
  }
  laid.height = laid.slanting ? std::min(most_length, widest) * sine + kLabelSize : kLabelSize * kLineHeight;
  return laid;
}

double DrawLegend(const std::vector<LegendEntry>& entries, const Box& box, Canvas* canvas) {
  double x = box.left;
  size_t row = 0, left_out = 0;
  bool any = false;
  for (const LegendEntry& entry : entries) {
    if (entry.name.empty()) continue;
    const std::string name = FitText(entry.name, kLabelSize, box.width - kSwatch - kGap);
    const double width = kSwatch + 6 + TextWidth(name, kLabelSize) + 2.2 * kGap;
    if (any && x + width > box.right() + 2 * kGap) {
      x = box.left;
      ++row;
    }
    if (row >= kMaxLegendRows) {
      ++left_out;
      continue;
    }
    any = true;
    const double base = box.top + (static_cast<double>(row) + 0.8) * kLabelSize * kLineHeight;
    canvas->Rectangle({x, base - kSwatch + 2, kSwatch, kSwatch}, entry.color);
    canvas->Text({x + kSwatch + 6, base}, name, {.size = kLabelSize});
    x += width;
  }
  if (!any) return 0;
  if (left_out > 0) {
    canvas->Text({box.left, box.top + (kMaxLegendRows + 0.8) * kLabelSize * kLineHeight},
                 absl::StrCat("and ", left_out, " more"), {.size = kLabelSize, .color = kAside});
  }
  return static_cast<double>(std::min(row + 1, kMaxLegendRows) + (left_out > 0 ? 1 : 0)) * kLabelSize * kLineHeight +
         kGap;
}

void DrawAxisTitle(const std::string& title, double center, double bottom, double room, Canvas* canvas) {
  canvas->Text({center, bottom - 5}, FitText(title, kLabelSize, room, /*bold=*/true),
               {.size = kLabelSize, .anchor = Anchor::kMiddle, .bold = true, .color = kAside});
}

void DrawTextOnPaper(Point at, const std::string& text, const TextLook& look, Canvas* canvas) {
  const double width = TextWidth(text, look.size, look.bold);
  const double left = at.x - width * 0.5 * static_cast<double>(look.anchor);
  canvas->Rectangle({left - 3, at.y - look.size * 0.9, width + 6, look.size * 1.15}, WithAlpha(kPaper, 0.82));
  canvas->Text(at, text, look);
}

void DrawNoData(const Box& box, Canvas* canvas) {
  const Point center = box.center();
  canvas->Text(center, "no data", {.size = kPanelTitleSize, .anchor = Anchor::kMiddle, .color = kAside});
}

}  // namespace gpumem::plots
