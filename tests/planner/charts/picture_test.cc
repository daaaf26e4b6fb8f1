// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A canvas, and what becomes of it as PNG.

#include "planner/charts/picture.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "planner/charts/text_measure.h"

namespace gpumem::plots {
namespace {

using ::testing::StartsWith;

uint32_t BigEndian(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes.at(at + i));
  return value;
}

Canvas Example() {
  Canvas canvas(200, 100);
  canvas.Rectangle({10, 20, 30, 40}, {255, 0, 0});
  canvas.Line({0, 0}, {5.25, 7}, {kInk, 2, /*dashed=*/true});
  canvas.Circle({50, 50}, 4, {0, 0, 255, 0.5});
  canvas.Text({60, 70}, "8 GiB", {.size = 18, .anchor = Anchor::kMiddle, .bold = true, .degrees = -40});
  return canvas;
}

TEST(CanvasTest, LeavesOutWhatIsNotFinite) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  Canvas canvas(10, 10);
  canvas.Rectangle({nan, 0, 1, 1}, kInk);
  canvas.Polyline({{0, 0}, {1, inf}}, {});
  canvas.Polyline({{0, 0}}, {});
  canvas.Circle({0, 0}, nan, kInk);
  canvas.Circle({0, nan}, 1, kInk);
  canvas.Slice({0, 0}, 1, 0, nan, kInk, std::nullopt);
  canvas.Slice({0, 0}, 1, 0.5, 0.5, kInk, std::nullopt);
  canvas.Text({inf, 0}, "text", {});
  canvas.Text({0, 0}, "", {});
  EXPECT_TRUE(canvas.marks().empty());
  canvas.Slice({0, 0}, 1, 0, 1, kInk, std::nullopt);
  EXPECT_EQ(canvas.marks().size(), 1u);
}

TEST(ColorTest, EndsAndContrast) {
  EXPECT_EQ(Mix(kInk, kPaper, -1), kInk);
  EXPECT_EQ(Mix(kInk, kPaper, 2), kPaper);
  EXPECT_EQ(ScaleColor(std::nan("")), ScaleColor(0));
  EXPECT_EQ(TextColorOn(ScaleColor(0)), kInk);
  EXPECT_EQ(TextColorOn(ScaleColor(1)), kPaper);
  for (size_t i = 0; i < 16; ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(PaletteColor(i), PaletteColor(j));
  }
}

TEST(PngTest, HasTheSizeThatWasAskedFor) {
  const absl::StatusOr<std::string> png = PngBytes(Example(), 1.5);
  ASSERT_TRUE(png.ok()) << png.status();
  EXPECT_THAT(*png, StartsWith("\x89PNG\r\n\x1a\n"));
  EXPECT_EQ(BigEndian(*png, 16), 300u);
  EXPECT_EQ(BigEndian(*png, 20), 150u);
}

TEST(PngTest, DrawsTheMarks) {
  const std::string empty = *PngBytes(Canvas(200, 100));
  std::vector<std::string> pictures = {empty, *PngBytes(Example())};
  Canvas text(200, 100);
  text.Text({20, 50}, "memory", {.size = 30});
  pictures.push_back(*PngBytes(text));
  Canvas circle(200, 100);
  circle.Circle({20, 50}, 10, kInk);
  pictures.push_back(*PngBytes(circle));
  for (size_t i = 0; i < pictures.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(pictures[i], pictures[j]);
  }
}

TEST(PngTest, TakesAnyText) {
  Canvas canvas(50, 50);
  canvas.Text({0, 20}, std::string("\xff\0\xc0\x80 显存", 11), {});
  EXPECT_TRUE(PngBytes(canvas).ok());
}

TEST(PngTest, RefusesWhatHasNoSize) {
  for (const Canvas& canvas : {Canvas(0, 10), Canvas(10, -1), Canvas(std::nan(""), 10), Canvas(10, std::nan(""))})
    EXPECT_TRUE(absl::IsInternal(PngBytes(canvas).status()));
}

TEST(PngTest, IsCoarserWhereCairoHasNotSoManyPixels) {
  const absl::StatusOr<std::string> png = PngBytes(Canvas(40000, 1000));
  ASSERT_TRUE(png.ok()) << png.status();
  EXPECT_EQ(BigEndian(*png, 16), 32767u);
  EXPECT_EQ(BigEndian(*png, 20), 820u);
}

TEST(PngTest, TheSamePictureGivesTheSameBytes) {
  const std::string first = *PngBytes(Example());
  Canvas another(30, 30);
  another.Text({5, 20}, "W", {.size = 12.5, .bold = true});
  EXPECT_TRUE(PngBytes(another).ok());  // what cairo keeps of it must not show
  EXPECT_EQ(*PngBytes(Example()), first);
}

// A font of the machine's would make pictures differ from machine to machine, and a container often has none.
TEST(PngTest, NeedsNoFontOfTheMachine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has not drawn yet
  EXPECT_EXIT(
      {
        setenv("FONTCONFIG_FILE", "/nonexistent", 1);
        const bool drawn = PngBytes(Example()).ok();
        _exit(drawn && std::abs(TextWidth("0", 1000) - 636) < 0.5 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace gpumem::plots
