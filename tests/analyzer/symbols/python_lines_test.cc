// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/python_lines.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <sstream>
#include <string>

#include "absl/strings/escaping.h"

namespace gpumem {
namespace {

PythonCodeInfo Code(uint32_t minor, uint32_t first_line, std::string table) {
  PythonCodeInfo code;
  code.python_minor = minor;
  code.first_line = first_line;
  code.line_table = std::move(table);
  return code;
}

// The interpreter that is installed, on thousands of real functions, must say the same for every instruction.
TEST(PythonLinesTest, EqualsTheInterpreter) {
  if (std::string(GPUMEM_TEST_PYTHON).empty()) GTEST_SKIP() << "no python3";
  FILE* const pipe = popen(GPUMEM_TEST_PYTHON " " GPUMEM_TEST_LINES, "r");
  ASSERT_NE(pipe, nullptr);
  std::string text;
  char buffer[65536];
  for (size_t got; (got = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) text.append(buffer, got);
  ASSERT_EQ(pclose(pipe), 0);
  std::istringstream lines(text);
  uint64_t instructions = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    uint32_t minor = 0, first = 0, offset = 0, want = 0;
    std::string hex;
    fields >> minor >> first >> hex;
    const PythonCodeInfo code = Code(minor, first, hex == "-" ? "" : absl::HexStringToBytes(hex));
    for (char colon; fields >> offset >> colon >> want; ++instructions) {
      ASSERT_EQ(PythonLine(code, offset), want == 0 ? first : want) << line.substr(0, 200) << " at " << offset;
    }
  }
  EXPECT_GT(instructions, 10000u);
}

TEST(PythonLinesTest, Lnotab) {
  // CPython 3.9: 4 bytes on line 10, 6 bytes on line 11, then back to line 9.
  const PythonCodeInfo code = Code(9, 10, std::string("\x04\x01\x06\xfe", 4));
  EXPECT_EQ(PythonLine(code, 0), 10u);
  EXPECT_EQ(PythonLine(code, 2), 10u);
  EXPECT_EQ(PythonLine(code, 4), 11u);
  EXPECT_EQ(PythonLine(code, 8), 11u);
  EXPECT_EQ(PythonLine(code, 10), 9u);
}

TEST(PythonLinesTest, RangesOf310) {
  // CPython 3.10: 2 bytes on the first line, 4 on the next, 2 on none, 2 on the line after.
  const PythonCodeInfo code = Code(10, 20, std::string("\x02\x00\x04\x01\x02\x80\x02\x01", 8));
  EXPECT_EQ(PythonLine(code, 0), 20u);
  EXPECT_EQ(PythonLine(code, 4), 21u);
  EXPECT_EQ(PythonLine(code, 6), 20u) << "no line: the function's";
  EXPECT_EQ(PythonLine(code, 8), 22u);
}

TEST(PythonLinesTest, SurvivesAnyBytes) {
  std::minstd_rand engine(7);
  const auto random = [&] { return static_cast<uint32_t>(engine()); };
  for (int i = 0; i < 20000; ++i) {
    std::string table(random() % 30, '\0');
    for (char& byte : table) byte = static_cast<char>(random());
    PythonLine(Code(8 + random() % 6, random(), table), random() % 200);
  }
}

}  // namespace
}  // namespace gpumem
