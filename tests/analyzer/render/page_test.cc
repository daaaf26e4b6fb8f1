// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "render/page.h"

#include <gmock/gmock.h>

#include "base/utf8.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TextStyle Narrow(int width) {
  TextStyle style;
  style.utf8 = true;
  style.width = width;
  return style;
}

TEST(Page, CutsLinesAtTheTerminalsEdge) {
  Page page(Narrow(10));
  page.Line({{Tone::kPlain, "12345678"}, {Tone::kHeading, "abcdef"}, {Tone::kPlain, "never"}});
  page.Line("模型模型模型");
  EXPECT_EQ(page.text(), "12345678a…\n模型模型…\n");
}

TEST(Page, BreaksParagraphsUnderTheirLead) {
  Page page(Narrow(30));
  page.Paragraph("  lead  ", "one two three four five six");
  EXPECT_EQ(page.text(), "  lead  one two three four\n        five six\n");
}

TEST(Page, LinesColumnsUp) {
  Page page(Narrow(40));
  page.Table({Align::kRight, Align::kLeft}, {{"bytes", "who"}, {"1", "模"}, {"1234567", "b"}});
  EXPECT_EQ(page.text(), "    bytes  who\n        1  模\n  1234567  b\n");
}

TEST(Page, LetsNoNameSteerTheTerminal) {
  TextStyle style = Narrow(80);
  style.color = true;
  Page page(style);
  page.Line("evil\x1b]0;title\x07name", Tone::kAlarm);
  page.Paragraph("lead ", "more\x1b[2J", Tone::kPlain);
  page.Table({Align::kLeft}, {{"h"},
                              {"\x9b"
                               "31m"}});
  EXPECT_THAT(page.text(), HasSubstr("evil\\x1b]0;title\\x07name"));
  EXPECT_THAT(page.text(), HasSubstr("more\\x1b[2J"));
  EXPECT_THAT(page.text(), Not(HasSubstr("\x9b")));
}

TEST(Page, StaysAsciiWhereTheTerminalIs) {
  TextStyle style = Narrow(12);
  style.utf8 = false;
  Page page(style);
  page.Line("模型 and more");
  for (const char c : page.text()) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
}

TEST(Page, GapsDoNotAddUp) {
  Page page(Narrow(20));
  page.Gap();
  page.Line("a");
  page.Gap();
  page.Gap();
  page.Line("b");
  EXPECT_EQ(page.text(), "a\n\nb\n");
}

}  // namespace
}  // namespace gpumem
