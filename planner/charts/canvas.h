// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Canvas: a picture as a list of marks (paths, circles, text), which png.h writes. Lengths are in points of the
// picture, y grows downwards. Marks with a coordinate that is not finite are left out, so that what is written
// never holds a NaN; text is made safe when it is written. Not thread-safe.
//
//   Canvas canvas(1200, 600);
//   canvas.Rectangle({10, 10, 100, 50}, PaletteColor(0));
//   canvas.Text({60, 80}, "8 GiB", {.size = 18, .anchor = Anchor::kMiddle});

#ifndef GPUMEM_PLANNER_CHARTS_CANVAS_H_
#define GPUMEM_PLANNER_CHARTS_CANVAS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "planner/charts/color.h"

namespace gpumem::plots {

struct Point {
  double x = 0, y = 0;
};

struct Box {
  double left = 0, top = 0, width = 0, height = 0;
  double right() const { return left + width; }
  double bottom() const { return top + height; }
  Point center() const { return {left + width / 2, top + height / 2}; }
};

enum class Anchor : uint8_t { kStart, kMiddle, kEnd };

struct Stroke {
  Color color = kInk;
  double width = 1;
  bool dashed = false;
};

struct TextLook {
  double size = 16;
  Anchor anchor = Anchor::kStart;  // which end of the text stands at its point
  bool bold = false;
  double degrees = 0;  // clockwise, around its point
  Color color = kInk;
};

struct PathMark {
  std::vector<Point> points;
  bool closed = false;
  std::optional<Color> fill;
  std::optional<Stroke> stroke;
};

struct CircleMark {
  Point center;
  double radius = 1;
  Color fill;
  std::optional<Stroke> stroke;
};

struct TextMark {
  Point at;  // the left, middle or right end of its base line
  std::string text;
  TextLook look;
};

using Mark = std::variant<PathMark, CircleMark, TextMark>;

class Canvas {
 public:
  Canvas(double width, double height) : width_(width), height_(height) {}

  double width() const { return width_; }
  double height() const { return height_; }
  const std::vector<Mark>& marks() const { return marks_; }

  void Rectangle(const Box& box, Color fill, std::optional<Stroke> stroke = std::nullopt);
  void Line(Point from, Point to, const Stroke& stroke);
  void Polyline(std::vector<Point> points, const Stroke& stroke);
  void Polygon(std::vector<Point> points, Color fill, std::optional<Stroke> stroke = std::nullopt);
  void Circle(Point center, double radius, Color fill, std::optional<Stroke> stroke = std::nullopt);
  // A sector; angles are shares of a turn from the top on, clockwise.
  void Slice(Point center, double radius, double from, double to, Color fill, std::optional<Stroke> stroke);
  void Text(Point at, absl::string_view text, const TextLook& look);

 private:
  void Add(PathMark mark);

  double width_, height_;
  std::vector<Mark> marks_;
};

}  // namespace gpumem::plots

#endif  // GPUMEM_PLANNER_CHARTS_CANVAS_H_
