// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/charts/axes.h"
#include "planner/charts/charts.h"
#include "planner/charts/look.h"
#include "planner/charts/text_measure.h"

namespace gpumem::plots {
namespace {

constexpr double kNameSize = kLabelSize * 0.92;
constexpr double kLeastLabelled = 0.07;  // of the pie: a smaller slice has no room for a number

std::string PercentText(double share) {
  if (share >= 0.995 && share < 1) return ">99 %";
  if (share > 0 && share < 0.005) return "<1 %";
  return absl::StrFormat("%.0f %%", share * 100);
}

void DrawNames(const std::vector<PieSlice>& slices, double total, Unit unit, const Box& box, Canvas* canvas) {
  const double most_rows = std::max(1.0, std::floor(box.height / (kNameSize * kLineHeight)));
  const size_t shown = std::min(slices.size(), static_cast<size_t>(most_rows));
  double base = box.top + (box.height - static_cast<double>(shown) * kNameSize * 1.6) / 2 + kNameSize;
  base = std::max(base, box.top + kNameSize);
  for (size_t i = 0; i < shown; ++i) {
    const std::string value = unit == Unit::kNumber ? ShortLabel(slices[i].value, unit)
                                                    : absl::StrCat(ShortLabel(slices[i].value, unit), "  ",
                                                                   PercentText(slices[i].value / total));
    const double width = TextWidth(value, kNameSize);
    canvas->Rectangle({box.left, base - 14, 16, 16}, slices[i].color);
    const std::string name = FitText(slices[i].name, kNameSize, box.width - 22 - width - kGap);
    canvas->Text({box.left + 22, base}, name, {.size = kNameSize});
    canvas->Text({box.right(), base}, value, {.size = kNameSize, .anchor = Anchor::kEnd, .color = kAside});
    base += std::min(kNameSize * 1.6, box.height / static_cast<double>(shown));
  }
}

}  // namespace

void Draw(const PieChart& chart, const Box& box, Canvas* canvas) {
  std::vector<PieSlice> slices;
  double total = 0;
  for (const PieSlice& slice : chart.slices) {
    if (!std::isfinite(slice.value) || slice.value <= 0) continue;
    slices.push_back(slice);
    total += slice.value;
  }
  if (slices.empty()) return DrawNoData(box, canvas);
  const double radius = std::min(box.height * 0.46, box.width * 0.17);
  const Point center = {box.left + radius + kGap, box.center().y};
  double from = 0;
  for (const PieSlice& slice : slices) {
    const double share = slice.value / total;
    canvas->Slice(center, radius, from, from + share, slice.color, Stroke{kPaper, 2});
    from += share;
  }
  from = 0;
  for (const PieSlice& slice : slices) {
    const double share = slice.value / total, angle = 2 * std::numbers::pi * (from + share / 2);
    const double reach = slices.size() == 1 ? 0 : radius * 0.64;
    if (share >= kLeastLabelled) {
      canvas->Text({center.x + reach * std::sin(angle), center.y - reach * std::cos(angle) + kLabelSize * 0.35},
                   PercentText(share),
                   {.size = kLabelSize, .anchor = Anchor::kMiddle, .bold = true, .color = TextColorOn(slice.color)});
    }
    from += share;
  }
  DrawNames(slices, total, chart.unit, Inset(box, 2 * radius + 4 * kGap, 0, kGap, 0), canvas);
}

}  // namespace gpumem::plots
