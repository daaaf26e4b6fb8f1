// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <cmath>
#include <vector>

#include "planner/charts/axes.h"
#include "planner/charts/charts.h"
#include "planner/charts/look.h"
#include "planner/charts/text_measure.h"

namespace gpumem::plots {
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
