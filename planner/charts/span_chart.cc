// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "planner/charts/axes.h"
#include "planner/charts/charts.h"
#include "planner/charts/look.h"
#include "planner/charts/text_measure.h"

namespace gpumem::plots {
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
  const Box inner = Inset(box, label + kGap, 0, note + kGap, kLabelSize * kLineHeight);
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
