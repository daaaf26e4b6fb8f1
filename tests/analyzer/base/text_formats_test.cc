// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/text_formats.h"

#include <gtest/gtest.h>

namespace gpumem {
namespace {

TEST(CsvCellTest, WhatASpreadsheetWouldRunIsAText) {
  for (const char* text : {"=cmd|' /C calc'!A0", "@SUM(A1)", "-2+3", "+1+1", "\t=1", "-inf", "--1", "-1 KiB+A1",
                           "\xef\xbc\x9d"
                           "1"})
    EXPECT_EQ(CsvCell(text), std::string("'") + text);
  EXPECT_EQ(CsvCell("\r=1"), "\"'\r=1\"");
  EXPECT_EQ(CsvCell("=HYPERLINK(\"a\",\"b\")"), "\"'=HYPERLINK(\"\"a\"\",\"\"b\"\")\"");
}

TEST(CsvCellTest, NumbersStayNumbersAndOtherTextsTexts) {
  for (const char* text : {"", "-1", "-12.5", "+3", "-1e-9", "-1.50 KiB", "-12 %", "1e5", "a=b", "a-b", " =1", "'"})
    EXPECT_EQ(CsvCell(text), text);
  EXPECT_EQ(CsvCell("a,b"), "\"a,b\"");
  EXPECT_EQ(CsvCell("a\"b"), "\"a\"\"b\"");
  EXPECT_EQ(CsvCell("a\nb"), "\"a\nb\"");
}

}  // namespace
}  // namespace gpumem
