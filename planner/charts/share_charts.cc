// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Charts of the parts of a whole: pies and treemaps.

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/charts/axes.h"
#include "planner/charts/charts.h"
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

namespace {

constexpr double kHead = 26;  // height of a group's name

double Length(const Box& box) { return std::min(box.width, box.height); }

// Bruls, Huizing and van Wijk, "Squarified Treemaps", 2000: rows of boxes along the shorter side, each filled as long
// as its boxes get no longer. `values` are above 0, largest first.
std::vector<Box> Squarify(const std::vector<double>& values, Box box) {
  std::vector<Box> boxes;
  double left = 0;
  for (const double value : values) left += value;
  for (size_t first = 0; first < values.size();) {
    const double side = Length(box), area = box.width * box.height / left;
    const auto longest = [&](double sum, double largest, double smallest) {
      return std::max(side * side * largest / (sum * sum * area), sum * sum * area / (side * side * smallest));
    };
    size_t last = first + 1;
    double sum = values[first];
    for (; last < values.size(); ++last) {
      const double more = sum + values[last];
      if (longest(more, values[first], values[last]) > longest(sum, values[first], values[last - 1])) break;
      sum = more;
    }
    const double thick = side > 0 ? sum * area / side : 0;
    double at = 0;
    for (; first < last; ++first) {
      const double length = values[first] / sum * side;
      boxes.push_back(box.width < box.height ? Box{box.left + at, box.top, length, thick}
                                             : Box{box.left, box.top + at, thick, length});
      at += length;
    }
    box = box.width < box.height ? Box{box.left, box.top + thick, box.width, std::max(box.height - thick, 0.0)}
                                 : Box{box.left + thick, box.top, std::max(box.width - thick, 0.0), box.height};
    left -= sum;
  }
  return boxes;
}

double AreaOf(const TreemapGroup& group) {
  double sum = 0;
  for (const TreemapPart& part : group.parts) sum += part.value;
  return sum;
}

void DrawLabel(const std::string& text, const Box& box, double down, Color color, bool bold, Canvas* canvas) {
  if (box.height < down + 4) return;
  const std::string shown = FitText(text, kLabelSize, box.width - 2 * kGap, bold);
  if (shown.size() > 4 || shown == text)
    canvas->Text({box.left + kGap, box.top + down}, shown, {.size = kLabelSize, .bold = bold, .color = color});
}

void DrawGroup(const TreemapGroup& group, Unit unit, const Box& box, Canvas* canvas) {
  canvas->Rectangle(box, group.color, Stroke{kPaper, 2});
  const Color ink = TextColorOn(group.color);
  const double head = box.height > 2 * kHead && box.width > 60 ? kHead : 0;
  if (head > 0) DrawLabel(group.name + "  " + ShortLabel(AreaOf(group), unit), box, kHead * 0.75, ink, true, canvas);
  std::vector<TreemapPart> parts = group.parts;
  std::erase_if(parts, [](const TreemapPart& part) { return !(part.value > 0); });
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.value > b.value; });
  std::vector<double> values;
  for (const TreemapPart& part : parts) values.push_back(part.value);
  const bool has_rim = box.width > 8 && box.height > 8 + head;
  const std::vector<Box> boxes = Squarify(values, has_rim ? Inset(box, 2, head, 2, 2) : box);
  for (size_t i = 0; i < parts.size(); ++i) {
    canvas->Rectangle(boxes[i], group.color, Stroke{kPaper, 1});
    DrawLabel(parts[i].name, boxes[i], kLabelSize + 4, ink, false, canvas);
    DrawLabel(ShortLabel(parts[i].value, unit), boxes[i], 2 * kLabelSize + 10, ink, false, canvas);
  }
}

}  // namespace

void Draw(const Treemap& chart, const Box& box, Canvas* canvas) {
  std::vector<TreemapGroup> groups = chart.groups;
  std::erase_if(groups,
                [](const TreemapGroup& group) { return !(AreaOf(group) > 0) || !std::isfinite(AreaOf(group)); });
  if (groups.empty()) return DrawNoData(box, canvas);
  std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return AreaOf(a) > AreaOf(b); });
  std::vector<double> values;
  for (const TreemapGroup& group : groups) values.push_back(AreaOf(group));
  const std::vector<Box> boxes = Squarify(values, box);
  for (size_t i = 0; i < groups.size(); ++i) DrawGroup(groups[i], chart.unit, boxes[i], canvas);
}

}  // namespace gpumem::plots
