// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/text_measure.h"

#include <gmock/gmock.h>

namespace gpumem::plots {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TextMeasureTest, WidthsAreThoseOfTheFont) {
  EXPECT_NEAR(TextWidth("0", 1000), 636, 0.5);
  EXPECT_NEAR(TextWidth("iW", 100), 27.8 + 98.9, 0.1);
  EXPECT_NEAR(TextWidth("0", 1000, /*bold=*/true), 696, 0.5);
  EXPECT_NEAR(TextWidth("é…", 1000), 615 + 1000, 0.5);
  EXPECT_EQ(TextWidth("", 20), 0);
}

TEST(TextMeasureTest, WidthsAreOfWhatIsDrawn) {
  EXPECT_EQ(TextWidth("\xff\n", 20), TextWidth("\\xff\\n", 20));
  EXPECT_GT(TextWidth(absl::string_view("\0", 1), 20), 0);
  for (const char* const noncharacter : {"\xef\xbf\xbe", "\xef\xb7\x90", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_GT(TextWidth(noncharacter, 20), 0);  // cairo refuses it, and whatever is measured after it
    EXPECT_GT(TextWidth("a", 20), 0);
  }
  EXPECT_NEAR(TextWidth("memory", 11) / 11, TextWidth("memory", 34) / 34, 1e-9);
}

TEST(TextMeasureTest, FitsWithAnEllipsis) {
  EXPECT_EQ(FitText("short", 16, 100), "short");
  const std::string cut = FitText("a rather long label", 16, 80);
  EXPECT_LE(TextWidth(cut, 16), 80);
  EXPECT_EQ(cut, "a rathe…");
  EXPECT_EQ(FitText("显存占用", 10, 22.5), "显存…");
  EXPECT_EQ(FitText("word", 16, 2), "");
  EXPECT_EQ(FitText("a b", 16, -5), "");
}

TEST(TextMeasureTest, AFileInFoldersIsCutOnTheLeft) {
  const std::string line = "examples/gpt/train_gpt.py:97 train_step";
  for (const double room : {300.0, 260.0, 230.0, 120.0}) {
    const std::string cut = FitText(line, 12, room);
    EXPECT_LE(TextWidth(cut, 12), room);
    EXPECT_TRUE(line.ends_with(cut == line ? cut : cut.substr(3))) << cut;
  }
  EXPECT_EQ(FitText(line, 12, TextWidth("…/train_gpt.py:97 train_step", 12) + 1), "…/train_gpt.py:97 train_step");
  EXPECT_EQ(FitText(line, 12, 2), "");
}

TEST(TextMeasureTest, OfALineItsNumberStays) {
  for (const char* const line : {"examples/train_gpt.py:97 Attention.forward", "05_fasterrcnn.py:33 <module>"}) {
    for (double room = TextWidth(line, 12); room > TextWidth("…:97", 12) + 1; room -= 3) {
      const std::string cut = FitText(line, 12, room);
      EXPECT_LE(TextWidth(cut, 12), room);
      EXPECT_TRUE(cut.find(":97") != std::string::npos || cut.find(":33") != std::string::npos) << cut;
    }
  }
  EXPECT_EQ(FitText("a/train_gpt.py:97 Attention.forward", 12, TextWidth("train_gpt.py:97", 12) + 1),
            "train_gpt.py:97");
  EXPECT_EQ(FitText("a/train_gpt.py:97", 12, 2), "");
}

TEST(TextMeasureTest, WrapsAtBlanks) {
  EXPECT_THAT(WrapText("one two three", 10, 45, 3), ElementsAre("one two", "three"));
  const std::vector<std::string> cut = WrapText("one two three four five", 10, 45, 2);
  ASSERT_EQ(cut.size(), 2u);
  EXPECT_LE(TextWidth(cut[1], 10), 45);
  EXPECT_THAT(WrapText("", 10, 45, 2), IsEmpty());
  EXPECT_THAT(WrapText("word", 10, 45, 0), IsEmpty());
}

}  // namespace
}  // namespace gpumem::plots
