// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/canvas.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <utility>

#include "base/palette.h"

namespace gpumem::plots {
namespace {

// Five stops from a pale yellow to a deep blue, as in ColorBrewer's YlGnBu.
constexpr Color kScale[] = {{255, 255, 217}, {199, 233, 180}, {65, 182, 196}, {34, 94, 168}, {8, 29, 88}};

uint8_t Between(uint8_t from, uint8_t to, double share) {
  return static_cast<uint8_t>(std::lround(from + (to - from) * share));
}

}  // namespace

Color PaletteColor(size_t index) {
  const uint32_t rgb = kPalette[index % std::size(kPalette)].rgb;
  return {static_cast<uint8_t>(rgb >> 16), static_cast<uint8_t>(rgb >> 8), static_cast<uint8_t>(rgb)};
}

Color Mix(Color from, Color to, double share) {
  const double part = std::isnan(share) ? 0 : std::clamp(share, 0.0, 1.0);
  return {Between(from.red, to.red, part), Between(from.green, to.green, part), Between(from.blue, to.blue, part),
          from.alpha + (to.alpha - from.alpha) * part};
}

Color WithAlpha(Color color, double alpha) {
  color.alpha = alpha;
  return color;
}

Color ScaleColor(double share) {
  constexpr size_t kSteps = std::size(kScale) - 1;
  const double at = (std::isnan(share) ? 0 : std::clamp(share, 0.0, 1.0)) * kSteps;
  const size_t step = std::min(static_cast<size_t>(at), kSteps - 1);
  return Mix(kScale[step], kScale[step + 1], at - static_cast<double>(step));
}

Color TextColorOn(Color background) {
  const auto linear = [](uint8_t part) {
    const double value = part / 255.0;
    return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  };
  // Relative luminance as WCAG 2.2 has it; at 0.213 both have the same contrast.
  const double luminance =
      0.2126 * linear(background.red) + 0.7152 * linear(background.green) + 0.0722 * linear(background.blue);
  return luminance > 0.213 ? kInk : kPaper;
}

namespace {

constexpr double kSliceSteps = 180;  // straight pieces of a full turn

bool IsFinite(Point point) { return std::isfinite(point.x) && std::isfinite(point.y); }

}  // namespace

void Canvas::Add(PathMark mark) {
  if (mark.points.size() < 2 || !std::all_of(mark.points.begin(), mark.points.end(), IsFinite)) return;
  marks_.emplace_back(std::move(mark));
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
    marks_.emplace_back(CircleMark{center, radius, fill, stroke});
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
  if (!text.empty() && IsFinite(at)) marks_.emplace_back(TextMark{at, std::string(text), look});
}

}  // namespace gpumem::plots
