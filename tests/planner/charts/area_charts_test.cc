// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Treemaps and spans, and pictures as SVG and PDF.

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "marks.h"
#include "planner/charts/figure.h"
#include "planner/charts/picture.h"

namespace gpumem::plots {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using testing::TextsBeyondTheEdge;
using testing::Words;

constexpr Color kRed{255, 0, 0}, kGreen{0, 128, 0};

// Closed rectangles of a colour.
std::vector<Box> Rectangles(const Canvas& canvas, Color color) {
  std::vector<Box> boxes;
  for (const Mark& mark : canvas.marks()) {
    const auto* path = std::get_if<PathMark>(&mark);
    if (path == nullptr || path->fill != color || path->points.size() < 4) continue;
    const Point a = path->points[0], c = path->points[2];
    boxes.push_back({std::min(a.x, c.x), std::min(a.y, c.y), std::abs(c.x - a.x), std::abs(c.y - a.y)});
  }
  return boxes;
}

TEST(TreemapTest, AreasAreAsLargeAsTheirValues) {
  Treemap chart;
  chart.groups = {{"large", kRed, {{"a", 600}, {"b", 100}, {"c", 50}}}, {"small", kGreen, {{"d", 250}}}};
  Canvas canvas(800, 500);
  Draw(chart, {0, 0, 800, 500}, &canvas);
  const Box red = Rectangles(canvas, kRed).at(0), green = Rectangles(canvas, kGreen).at(0);
  EXPECT_NEAR(red.width * red.height, 0.75 * 800 * 500, 1);
  EXPECT_NEAR(green.width * green.height, 0.25 * 800 * 500, 1);
  const std::vector<Box> parts = Rectangles(canvas, kRed);
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_NEAR(parts[1].width * parts[1].height / (parts[2].width * parts[2].height), 6, 0.01);
}

TEST(TreemapTest, AnyValuesStayInTheBox) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    Treemap chart;
    for (size_t group = 0; group < random() % 9; ++group) {
      chart.groups.push_back({"group", kRed, {}});
      for (size_t part = 0; part < random() % 40; ++part)
        chart.groups.back().parts.push_back({"part", std::pow(10.0, static_cast<double>(random() % 13)) - 1});
    }
    const auto width = static_cast<double>(1 + random() % 900), height = static_cast<double>(1 + random() % 900);
    Canvas canvas(width, height);
    Draw(chart, {0, 0, width, height}, &canvas);
    for (const Box& box : Rectangles(canvas, kRed)) {
      EXPECT_GE(box.left, -1e-6);
      EXPECT_LE(box.right(), width + 1e-6);
      EXPECT_LE(box.bottom(), height + 1e-6);
    }
  }
}

TEST(TreemapTest, NothingAndWhatIsNotFiniteSayNoData) {
  for (const double value : {0.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Treemap chart;
    chart.groups = {{"group", kRed, {{"a", value}}}};
    Canvas canvas(400, 300);
    Draw(chart, {0, 0, 400, 300}, &canvas);
    EXPECT_THAT(Rectangles(canvas, kRed), IsEmpty()) << value;
  }
}

TEST(SpanChartTest, PiecesLieWhereTheyAreAndSmallerRowsAreCounted) {
  SpanChart chart;
  for (int i = 0; i < 100; ++i) chart.rows.push_back({absl::StrCat(i, " MiB"), "free", 100, {{25, 75, kRed, i == 0}}});
  Canvas canvas(600, 300);
  Draw(chart, {0, 0, 600, 300}, &canvas);
  const Box whole = Rectangles(canvas, kMissing).at(0), piece = Rectangles(canvas, kRed).at(0);
  EXPECT_NEAR(piece.left - whole.left, whole.width * 0.25, 1e-6);
  EXPECT_NEAR(piece.width, whole.width * 0.5, 1e-6);
  EXPECT_THAT(Words(canvas).back(), HasSubstr("smaller ones are not drawn"));
  EXPECT_THAT(TextsBeyondTheEdge(canvas), IsEmpty());
}

TEST(VectorPictureTest, IsWhatItSays) {
  Canvas canvas(300, 200);
  canvas.Rectangle({10, 20, 30, 40}, kRed);
  canvas.Text({60, 70}, "8 GiB </svg>\x1b", {.size = 18});
  const auto svg = VectorBytes(canvas, VectorFormat::kSvg), pdf = VectorBytes(canvas, VectorFormat::kPdf);
  ASSERT_TRUE(svg.ok() && pdf.ok());
  EXPECT_THAT(*svg, HasSubstr("<svg"));
  EXPECT_THAT(*svg, HasSubstr("width=\"300"));
  EXPECT_THAT(*pdf, StartsWith("%PDF-"));
  EXPECT_EQ(*pdf, *VectorBytes(canvas, VectorFormat::kPdf));
}

}  // namespace
}  // namespace gpumem::plots
