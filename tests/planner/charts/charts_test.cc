// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/charts.h"

#include <gmock/gmock.h>

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "marks.h"
#include "planner/charts/figure.h"

namespace gpumem::plots {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::OddNumbers;
using testing::OverlappingTexts;
using testing::TextsBeyondTheEdge;
using testing::Words;

constexpr double kGiB = 0x1p30;

Canvas Drawn(const Chart& chart, double width = 600, double height = 400) {
  Figure figure;
  figure.title = "Title";
  figure.width = width;
  figure.rows.push_back({{{"Panel", "", chart}}, height});
  return DrawFigure(figure);
}

// Rectangles of a colour, by their heights.
std::vector<Box> BoxesOf(const Canvas& canvas, Color color) {
  std::vector<Box> boxes;
  for (const Mark& mark : canvas.marks()) {
    const auto* path = std::get_if<PathMark>(&mark);
    if (path == nullptr || path->fill != color || path->points.size() != 4) continue;
    boxes.push_back({path->points[0].x, path->points[0].y, path->points[2].x - path->points[0].x,
                     path->points[2].y - path->points[0].y});
  }
  return boxes;
}

LineChart Lines() {
  LineChart chart;
  chart.x_title = "seq_len";
  chart.x_ticks = {256, 512, 1024, 2048, 4096};
  chart.series.push_back({.name = "batch 1", .color = PaletteColor(0)});
  for (const double x : chart.x_ticks) chart.series[0].points.push_back({x, x * kGiB / 256});
  return chart;
}

TEST(LineChartTest, PutsPointsWhereTheyBelong) {
  const Canvas canvas = Drawn(Lines());
  std::vector<Point> centers;
  for (const Mark& mark : canvas.marks()) {
    if (const auto* circle = std::get_if<CircleMark>(&mark)) centers.push_back(circle->center);
  }
  ASSERT_EQ(centers.size(), 5u);
  // y is 1, 2, 4, 8, 16 GiB, x likewise: they lie on a line.
  const double slope = (centers[4].y - centers[0].y) / (centers[4].x - centers[0].x);
  EXPECT_LT(slope, 0);
  for (const Point& center : centers) EXPECT_NEAR(center.y, centers[0].y + slope * (center.x - centers[0].x), 0.01);
  EXPECT_THAT(Words(canvas), Contains("seq_len"));
  EXPECT_THAT(Words(canvas), Contains("4096"));
  EXPECT_THAT(OverlappingTexts(canvas), IsEmpty());
}

TEST(LineChartTest, ShowsTheLimitWhereItIsNearAndTellsItElsewhere) {
  LineChart chart = Lines();
  chart.limit = Limit{24 * kGiB, "device: 24 GiB"};
  EXPECT_THAT(Words(Drawn(chart)), Contains("device: 24 GiB"));
  chart.limit = Limit{80 * kGiB, "device: 80 GiB"};
  EXPECT_THAT(Words(Drawn(chart)), Contains("device: 80 GiB (off scale)"));
}

// Of the lines of a chart, those that have this colour and meet the label that contains `text`.
size_t LinesUnder(const Canvas& canvas, const std::string& text, Color color) {
  size_t count = 0;
  for (const TextMark& label : testing::Texts(canvas)) {
    if (!absl::StrContains(label.text, text)) continue;
    const Box box = testing::BoxOf(label);
    for (const Mark& mark : canvas.marks()) {
      const auto* path = std::get_if<PathMark>(&mark);
      if (path == nullptr || !path->stroke.has_value() || path->stroke->color != color) continue;
      for (size_t i = 1; i < path->points.size(); ++i) {
        for (int step = 0; step <= 50; ++step) {
          const double share = step / 50.0;
          const Point at{path->points[i - 1].x + share * (path->points[i].x - path->points[i - 1].x),
                         path->points[i - 1].y + share * (path->points[i].y - path->points[i - 1].y)};
          count += at.x > box.left && at.x < box.right() && at.y > box.top && at.y < box.bottom() ? 1 : 0;
        }
      }
    }
  }
  return count;
}

TEST(LineChartTest, LabelsLieOnNoLine) {
  LineChart chart = Lines();
  chart.limit = Limit{80 * kGiB, "device: 80 GiB"};
  chart.series.push_back({.name = "reserved", .color = PaletteColor(1), .marks = false, .stepped = true});
  chart.series[1].points = {{256, 4 * kGiB}, {2000, 9 * kGiB}, {3000, 18 * kGiB}, {4096, 18 * kGiB}};
  chart.callouts.push_back({{3000, 12 * kGiB}, "peak 12 GiB"});
  const Canvas canvas = Drawn(chart, 900, 500);
  for (const Color color : {PaletteColor(0), PaletteColor(1)}) {
    EXPECT_EQ(LinesUnder(canvas, "peak", color), 0u);
    EXPECT_EQ(LinesUnder(canvas, "off scale", color), 0u);
  }
  EXPECT_EQ(LinesUnder(canvas, "off scale", kGrid), 0u);
}

TEST(LineChartTest, CalloutsStayInside) {
  LineChart chart = Lines();
  chart.callouts.push_back({{4096, 16 * kGiB}, "peak 16 GiB"});
  const Canvas canvas = Drawn(chart);
  EXPECT_THAT(Words(canvas), Contains("peak 16 GiB"));
  EXPECT_THAT(TextsBeyondTheEdge(canvas), IsEmpty());
}

TEST(LineChartTest, OddValuesAreLeftOut) {
  LineChart chart;
  EXPECT_THAT(Words(Drawn(chart)), Contains("no data"));
  chart.series.push_back({.name = "odd", .color = kInk, .points = {{std::nan(""), 1}, {1, HUGE_VAL}}});
  EXPECT_THAT(Words(Drawn(chart)), Contains("no data"));
  chart.series[0].points.push_back({7, 5});
  EXPECT_THAT(Words(Drawn(chart)), Not(Contains("no data")));
  chart.series[0].points = {{7, 0}, {7, 1.8e19}};
  EXPECT_THAT(OddNumbers(Drawn(chart)), IsEmpty());
}

BarChart Bars(size_t count, bool stacked) {
  BarChart chart;
  chart.stacked = stacked;
  chart.series = {{"a", PaletteColor(0), {}}, {"b", PaletteColor(1), {}}};
  for (size_t i = 0; i < count; ++i) {
    chart.categories.push_back(absl::StrCat("configuration ", i));
    chart.series[0].values.push_back(4 * kGiB);
    chart.series[1].values.push_back(2 * kGiB);
  }
  return chart;
}

TEST(BarChartTest, StacksOrGroups) {
  const Canvas stacked = Drawn(Bars(3, true));
  std::vector<Box> below = BoxesOf(stacked, PaletteColor(0)), above = BoxesOf(stacked, PaletteColor(1));
  ASSERT_EQ(below.size(), 4u);  // one is the legend's
  EXPECT_NEAR(below[1].height, 2 * above[1].height, 0.01);
  EXPECT_NEAR(below[1].top, above[1].bottom(), 0.01);
  const Canvas grouped = Drawn(Bars(3, false));
  below = BoxesOf(grouped, PaletteColor(0));
  above = BoxesOf(grouped, PaletteColor(1));
  EXPECT_NEAR(below[1].bottom(), above[1].bottom(), 0.01);
  EXPECT_NEAR(below[1].right(), above[1].left, 0.01);
}

TEST(BarChartTest, LiesDownAndTellsTotals) {
  BarChart chart = Bars(2, true);
  chart.horizontal = chart.totals = true;
  const Canvas canvas = Drawn(chart);
  EXPECT_THAT(Words(canvas), Contains("6 GiB").Times(::testing::Ge(2)));
  const std::vector<Box> first = BoxesOf(canvas, PaletteColor(0)), second = BoxesOf(canvas, PaletteColor(1));
  EXPECT_NEAR(first[1].right(), second[1].left, 0.01);
  EXPECT_THAT(TextsBeyondTheEdge(canvas), IsEmpty());
}

TEST(BarChartTest, LabelsKeepApartHoweverManyThereAre) {
  for (const size_t count : {1, 2, 5, 20, 60, 200, 1000}) {
    for (const bool numbers : {false, true}) {
      BarChart chart = Bars(count, false);
      for (size_t i = 0; numbers && i < count; ++i) chart.categories[i] = absl::StrCat(i + 1);
      const Canvas canvas = Drawn(chart);
      EXPECT_THAT(OverlappingTexts(canvas), IsEmpty()) << count;
      EXPECT_THAT(TextsBeyondTheEdge(canvas), IsEmpty()) << count;
    }
  }
}

TEST(BarChartTest, AnAlarmIsRed) {
  BarChart chart = Bars(2, false);
  chart.alarms = {false, true};
  size_t red = 0;
  for (const TextMark& text : testing::Texts(Drawn(chart))) red += text.look.color == kAlarm;
  EXPECT_EQ(red, 1u);
  EXPECT_THAT(Words(Drawn(BarChart())), Contains("no data"));
}

TEST(HeatmapTest, ShowsValuesAlarmsAndWhatIsMissing) {
  Heatmap map;
  map.rows = {"1", "2"};
  map.columns = {"256", "512"};
  map.row_title = "batch_size";
  map.column_title = "seq_len";
  map.cells = {{{HeatCell::kValue, kGiB, {"1 GiB"}}, {HeatCell::kValue, 4 * kGiB, {"4 GiB"}}},
               {{HeatCell::kAlarm, 99 * kGiB, {"OOM", "99 GiB"}}}};  // the last is missing altogether
  const Canvas canvas = Drawn(map);
  for (const char* word : {"1 GiB", "4 GiB", "OOM", "99 GiB", "256", "512", "batch_size", "seq_len"})
    EXPECT_THAT(Words(canvas), Contains(word));
  EXPECT_EQ(BoxesOf(canvas, kMissing).size(), 1u);
  EXPECT_THAT(OverlappingTexts(canvas), IsEmpty());
  // A size that does not fit in does not stretch the colours of those that do.
  EXPECT_EQ(BoxesOf(canvas, ScaleColor(0.9)).size(), 1u);
  EXPECT_THAT(Words(Drawn(Heatmap())), Contains("no data"));
}

TEST(HeatmapTest, LeavesOutWordsThatWouldNotFit) {
  Heatmap map;
  for (int i = 0; i < 100; ++i) {
    map.columns.push_back(absl::StrCat(i));
    map.rows.push_back(absl::StrCat(i));
  }
  map.cells.assign(100, std::vector<HeatCell>(100, {HeatCell::kValue, kGiB, {"1.00 GiB"}}));
  const Canvas canvas = Drawn(map);
  EXPECT_THAT(Words(canvas), Not(Contains("1.00 GiB")));
  EXPECT_THAT(OverlappingTexts(canvas), IsEmpty());
}

TEST(PieChartTest, SlicesAddUp) {
  PieChart pie;
  pie.slices = {{"parameters", PaletteColor(0), 3 * kGiB},
                {"none", PaletteColor(1), 0},
                {"odd", PaletteColor(2), std::nan("")},
                {"gradients", PaletteColor(3), kGiB}};
  const Canvas canvas = Drawn(pie);
  EXPECT_THAT(Words(canvas), ::testing::IsSupersetOf({"parameters", "gradients", "75 %", "25 %", "3 GiB  75 %"}));
  EXPECT_THAT(Words(canvas), Not(Contains("none")));
  EXPECT_THAT(Words(Drawn(PieChart())), Contains("no data"));
}

TEST(FigureTest, LongWordsAreCutAndNotesWrap) {
  Figure figure;
  figure.title = std::string(300, 'W');
  figure.subtitle = absl::StrCat("python train.py ", std::string(3000, 'x'));
  figure.notes = {"a note of many words that goes on and on", std::string(500, 'n')};
  figure.rows.push_back({{{std::string(200, 'p'), std::string(200, 'q'), Lines()}, {"b", "", Bars(9, true)}}, 400});
  const Canvas canvas = DrawFigure(figure);
  EXPECT_THAT(TextsBeyondTheEdge(canvas), IsEmpty());
  EXPECT_THAT(OverlappingTexts(canvas), IsEmpty());
}

TEST(FigureTest, EmptyIsAPictureToo) {
  const Canvas canvas = DrawFigure(Figure());
  EXPECT_GT(canvas.height(), 0);
  EXPECT_THAT(Words(canvas), ElementsAre());
}

}  // namespace
}  // namespace gpumem::plots
