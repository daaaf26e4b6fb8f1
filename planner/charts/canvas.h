// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Canvas: a picture as a list of marks (paths, circles, text), which picture.h writes. Lengths are in points of the
// picture, y grows downwards. Marks with a coordinate that is not finite are left out, so that what is written
// never holds a NaN; text is made safe when it is written. Not thread-safe.
//
//   Canvas canvas(1200, 600);
//   canvas.Rectangle({10, 10, 100, 50}, PaletteColor(0));
//   canvas.Text({60, 80}, "8 GiB", {.size = 18, .anchor = Anchor::kMiddle});

#ifndef GPUMEM_PLANNER_CHARTS_CANVAS_H_
#define GPUMEM_PLANNER_CHARTS_CANVAS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpumem::plots {

// Colours of pictures. The palette is Okabe and Ito's: people who cannot tell red from green tell these apart, and on
// paper without colour they differ in lightness. Pure functions.
//
//   canvas.Rectangle(box, PaletteColor(0));

struct Color {
  uint8_t red = 0, green = 0, blue = 0;
  double alpha = 1;  // 0: invisible
  friend bool operator==(const Color&, const Color&) = default;
};

inline constexpr Color kInk{34, 34, 34}, kAside{110, 110, 110}, kGrid{225, 225, 225}, kPaper{255, 255, 255};
inline constexpr Color kAlarm{196, 43, 28};  // does not fit, the device's limit
inline constexpr Color kMissing{236, 236, 236};

// Of the series number `index`; after eight they are repeated, lighter.
Color PaletteColor(size_t index);

// `share` of `to`, the rest of `from`. Shares past [0, 1] count as its ends.
Color Mix(Color from, Color to, double share);
Color WithAlpha(Color color, double alpha);

// From light (0) to dark (1), evenly in lightness: for values of a heatmap.
Color ScaleColor(double share);

// kInk or kPaper, whichever reads better on `background`.
Color TextColorOn(Color background);

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
