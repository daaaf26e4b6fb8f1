// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/utf8.h"

#include <gtest/gtest.h>

namespace gpumem {
namespace {

TEST(DecodeUtf8, TakesWholeCharactersOnly) {
  EXPECT_EQ(DecodeUtf8("é").value, U'é');
  EXPECT_EQ(DecodeUtf8("😀x").length, 4u);
  for (const char* bad :
       {"\x80", "\xc1\xbf", "\xe0\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xed\xbf\xbf", "\xe4\xbd"}) {
    const DecodedChar c = DecodeUtf8(bad);
    EXPECT_FALSE(c.valid) << bad;
    EXPECT_EQ(c.length, 1u);
  }
}

TEST(DecodeUtf8, UndoesAppendUtf8) {
  for (char32_t c : {U'a', U'é', U'模', U'😀', char32_t{0x10FFFF}, char32_t{0x7FF}, char32_t{0x800}, char32_t{0xFFFF}}) {
    std::string text;
    AppendUtf8(c, &text);
    const DecodedChar back = DecodeUtf8(text);
    EXPECT_TRUE(back.valid);
    EXPECT_EQ(back.value, c);
    EXPECT_EQ(back.length, text.size());
  }
}

TEST(EscapeControls, ShowsEscapeSequencesInsteadOfObeyingThem) {
  EXPECT_EQ(EscapeControls("a\x1b[2J\x07"), "a\\x1b[2J\\x07");
  EXPECT_EQ(EscapeControls("line\nnext\tcell"), "line\\nnext\\tcell");
  EXPECT_EQ(EscapeControls("\u009b31m"), "\\x9b31m");  // the 8-bit CSI
  EXPECT_EQ(EscapeControls("evil\u202e.py"), "evil\\u{202e}.py");
  EXPECT_EQ(EscapeControls("a\xff"), "a\\xff");
  EXPECT_EQ(EscapeControls("模型.py"), "模型.py");
  EXPECT_EQ(EscapeControls("模.py", /*ascii_only=*/true), "\\u{6a21}.py");
}

TEST(DisplayWidth, CountsColumns) {
  EXPECT_EQ(DisplayWidth("abc"), 3);
  EXPECT_EQ(DisplayWidth("模型"), 4);
  EXPECT_EQ(DisplayWidth("e\u0301"), 1);
  EXPECT_EQ(DisplayWidth("한글"), 4);
  EXPECT_EQ(DisplayWidth("😀"), 2);
  EXPECT_EQ(DisplayWidth("▁█…"), 3);
}

TEST(Truncate, NeverSplitsACharacterNorGoesOverTheWidth) {
  EXPECT_EQ(TruncateEnd("train.py", 8, "…"), "train.py");
  EXPECT_EQ(TruncateEnd("train.py", 5, "…"), "trai…");
  EXPECT_EQ(TruncateEnd("模型模型", 5, "…"), "模型…");
  EXPECT_EQ(TruncateEnd("模型模型", 4, "…"), "模…");
  EXPECT_EQ(TruncateStart("/a/very/long/path.py", 8, "…"), "…path.py");
  EXPECT_EQ(TruncateStart("模型模型", 4, "..."), "...");
  EXPECT_EQ(TruncateEnd("abc", 2, "..."), "");
  for (int width = 1; width < 12; ++width) {
    EXPECT_LE(DisplayWidth(TruncateEnd("a模b型c😀", width, "…")), width);
    EXPECT_LE(DisplayWidth(TruncateStart("a模b型c😀", width, "…")), width);
  }
}

TEST(Pad, FillsByColumns) {
  EXPECT_EQ(PadRight("模", 4), "模  ");
  EXPECT_EQ(PadLeft("模", 4), "  模");
  EXPECT_EQ(PadLeft("12345", 3), "12345");
}

}  // namespace
}  // namespace gpumem
