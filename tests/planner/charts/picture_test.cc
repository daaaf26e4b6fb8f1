// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A canvas as SVG and as PNG, and what becomes of it without cairo.

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "planner/charts/picture_file.h"
#include "planner/charts/png.h"
#include "planner/charts/svg.h"

namespace gpumem::plots {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

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

TEST(SvgTest, HoldsEachMark) {
  const std::string svg = SvgText(Example());
  EXPECT_THAT(svg, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"200\" height=\"100\""));
  EXPECT_THAT(svg, HasSubstr("<path d=\"M10 20L40 20L40 60L10 60Z\" fill=\"#ff0000\"/>"));
  EXPECT_THAT(svg, HasSubstr("<path d=\"M0 0L5.25 7\" fill=\"none\" stroke=\"#222222\" stroke-width=\"2\" "
                             "stroke-dasharray=\"8 6\"/>"));
  EXPECT_THAT(svg, HasSubstr("<circle cx=\"50\" cy=\"50\" r=\"4\" fill=\"#0000ff\" fill-opacity=\"0.5\"/>"));
  EXPECT_THAT(svg, HasSubstr("text-anchor=\"middle\" fill=\"#222222\" font-weight=\"bold\" transform=\"rotate(-40 60 "
                             "70)\">8 GiB</text>"));
  EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
}

TEST(SvgTest, HostileTextStaysText) {
  Canvas canvas(10, 10);
  canvas.Text({0, 0}, "</text><script>alert('1')</script>&\"\x1b[31m\xff", {});
  const std::string svg = SvgText(canvas);
  EXPECT_THAT(svg, HasSubstr("&lt;/text&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;&quot;"));
  EXPECT_THAT(svg, Not(HasSubstr("\x1b")));
  EXPECT_THAT(svg, Not(HasSubstr("\xff")));
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

bool HasCairo() { return PngBytes(Canvas(1, 1)).ok(); }

TEST(PngTest, HasTheSizeThatWasAskedFor) {
  if (!HasCairo()) GTEST_SKIP() << "no libcairo.so.2 here";
  const absl::StatusOr<std::string> png = PngBytes(Example(), 1.5);
  ASSERT_TRUE(png.ok()) << png.status();
  EXPECT_THAT(*png, StartsWith("\x89PNG\r\n\x1a\n"));
  EXPECT_EQ(BigEndian(*png, 16), 300u);
  EXPECT_EQ(BigEndian(*png, 20), 150u);
}

TEST(PngTest, DrawsTheMarks) {
  if (!HasCairo()) GTEST_SKIP() << "no libcairo.so.2 here";
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
  if (!HasCairo()) GTEST_SKIP() << "no libcairo.so.2 here";
  Canvas canvas(50, 50);
  canvas.Text({0, 20}, std::string("\xff\0\xc0\x80 显存", 11), {});
  EXPECT_TRUE(PngBytes(canvas).ok());
}

TEST(PngTest, RefusesSizesThatCairoHasNot) {
  if (!HasCairo()) GTEST_SKIP() << "no libcairo.so.2 here";
  for (const Canvas& canvas : {Canvas(0, 10), Canvas(40000, 10), Canvas(std::nan(""), 10)})
    EXPECT_TRUE(absl::IsInternal(PngBytes(canvas).status()));
}

TEST(PngTest, WithoutCairoNamesThePackage) {
  for (const char* library : {"libno-such-cairo.so.2", "libm.so.6"}) {
    const absl::Status status = PngBytes(Example(), 1, library).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("install libcairo2"));
  }
}

class PictureFileTest : public ::testing::Test {
 protected:
  PictureFileTest() : folder_(::testing::TempDir() + "gpumem_pictures." + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~PictureFileTest() override { std::filesystem::remove_all(folder_); }

  size_t files() const { return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {})); }

  std::string folder_;
};

TEST_F(PictureFileTest, IsSvgWhereCairoIsAbsent) {
  const auto written = WritePicture(Example(), folder_ + "/picture", "libno-such-cairo.so.2");
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->path, folder_ + "/picture.svg");
  EXPECT_THAT(written->problem, HasSubstr("install libcairo2"));
  EXPECT_EQ(ReadAll(written->path), SvgText(Example()));
}

TEST_F(PictureFileTest, ReplacesWhatWasThere) {
  if (!HasCairo()) GTEST_SKIP() << "no libcairo.so.2 here";
  ASSERT_TRUE(WritePicture(Example(), folder_ + "/picture", "libno-such-cairo.so.2").ok());
  const auto written = WritePicture(Example(), folder_ + "/picture");
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->path, folder_ + "/picture.png");
  EXPECT_EQ(written->problem, "");
  EXPECT_EQ(ReadAll(written->path), *PngBytes(Example()));
  EXPECT_EQ(files(), 1u);  // neither the SVG nor a temporary file
}

TEST_F(PictureFileTest, SaysWhereItCannotWrite) {
  const absl::Status status = WritePicture(Example(), folder_ + "/missing/picture").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("missing/picture"));
  EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace gpumem::plots
