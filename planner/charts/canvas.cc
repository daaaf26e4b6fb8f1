// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/canvas.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace gpumem::plots {
namespace {

constexpr double kSliceSteps = 180;  // straight pieces of a full turn

bool IsFinite(Point point) { return std::isfinite(point.x) && std::isfinite(point.y); }

}  // namespace

void Canvas::Add(PathMark mark) {
  if (mark.points.size() < 2 || !std::all_of(mark.points.begin(), mark.points.end(), IsFinite)) return;
  marks_.push_back(std::move(mark));
}

void Canvas::Rectangle(const Box& box, Color fill, std::optional<Stroke> stroke) {
  Polygon({{box.left, box.top}, {box.right(), box.top}, {box.right(), box.bottom()}, {box.left, box.bottom()}}, fill,
          stroke);
}

void Canvas::Line(Point from, Point to, const Stroke& stroke) { Polyline({from, to}, stroke); }

void Canvas::Polyline(std::vector<Point> points, const Stroke& stroke) {
  Add({std::move(points), /*closed=*/false, std::nullopt, stroke});
}

void Canvas::Polygon(std::vector<Point> points, Color fill, std::optional<Stroke> stroke) {
  Add({std::move(points), /*closed=*/true, fill, stroke});
}

void Canvas::Circle(Point center, double radius, Color fill, std::optional<Stroke> stroke) {
  if (IsFinite(center) && std::isfinite(radius) && radius > 0)
    marks_.push_back(CircleMark{center, radius, fill, stroke});
}

void Canvas::Slice(Point center, double radius, double from, double to, Color fill, std::optional<Stroke> stroke) {
  const double share = std::clamp(to - from, 0.0, 1.0);
  if (!(share > 0)) return;  // nothing, or no number
  const int steps = std::max(2, static_cast<int>(std::ceil(share * kSliceSteps)));
  std::vector<Point> points;
  if (share < 1) points.push_back(center);
  for (int i = 0; i <= steps; ++i) {
    const double angle = 2 * std::numbers::pi * (from + share * i / steps);
    points.push_back({center.x + radius * std::sin(angle), center.y - radius * std::cos(angle)});
  }
  Polygon(std::move(points), fill, stroke);
}

void Canvas::Text(Point at, absl::string_view text, const TextLook& look) {
  if (!text.empty() && IsFinite(at)) marks_.push_back(TextMark{at, std::string(text), look});
}

}  // namespace gpumem::plots
