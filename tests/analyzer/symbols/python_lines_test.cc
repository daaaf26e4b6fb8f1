// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/python_lines.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gpumem {
namespace {

PythonCodeInfo Code(uint32_t minor, uint32_t first_line, std::string table) {
  PythonCodeInfo code;
  code.python_minor = minor;
  code.first_line = first_line;
  code.line_table = std::move(table);
  return code;
}

// Folders with interpreters: PATH, and where pyenv keeps its versions.
std::vector<std::string> InterpreterFolders() {
  namespace fs = std::filesystem;
  const auto environment = [](const char* name) -> std::string {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  std::vector<std::string> folders = absl::StrSplit(environment("PATH"), ':', absl::SkipEmpty());
  const std::string pyenv =
      environment("PYENV_ROOT").empty() ? environment("HOME") + "/.pyenv" : environment("PYENV_ROOT");
  std::error_code error;
  for (fs::directory_iterator entry(pyenv + "/versions", error), end; !error && entry != end; entry.increment(error)) {
    folders.push_back(entry->path().string() + "/bin");
  }
  return folders;
}

std::string OutputOf(const std::string& command, int* status) {
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  char buffer[65536];
  for (size_t got; (got = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) text.append(buffer, got);
  *status = pclose(pipe);
  return text;
}

// A python3.MINOR that runs (pyenv's shims on PATH may not), or "".
std::string FindInterpreter(int minor) {
  static const std::vector<std::string>* const folders = new std::vector<std::string>(InterpreterFolders());
  for (const std::string& folder : *folders) {
    const std::string path = absl::StrCat("'", folder, "/python3.", minor, "'");
    if (access(absl::StrCat(folder, "/python3.", minor).c_str(), X_OK) != 0) continue;
    int status = 0;
    const std::string reported = OutputOf(path + " -c 'import sys; print(sys.version_info[1])' 2>/dev/null", &status);
    if (status == 0 && reported == absl::StrCat(minor, "\n")) return path;
  }
  return "";
}

class InterpreterTest : public ::testing::TestWithParam<int> {};

// The interpreter itself, on thousands of real functions, must say the same for every instruction.
TEST_P(InterpreterTest, SaysTheSameLines) {
  const std::string python = FindInterpreter(GetParam());
  if (python.empty()) GTEST_SKIP() << "absent: no python3." << GetParam() << " on PATH or among pyenv's versions";
  int status = 0;
  const std::string text = OutputOf(python + " '" GPUMEM_TEST_LINES "'", &status);
  ASSERT_EQ(status, 0);
  std::istringstream lines(text);
  uint64_t instructions = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    uint32_t minor = 0, first = 0, offset = 0, want = 0;
    std::string hex;
    fields >> minor >> first >> hex;
    ASSERT_EQ(minor, static_cast<uint32_t>(GetParam()));
    const PythonCodeInfo code = Code(minor, first, hex == "-" ? "" : absl::HexStringToBytes(hex));
    for (char colon; fields >> offset >> colon >> want; ++instructions) {
      ASSERT_EQ(PythonLine(code, offset), want == 0 ? first : want) << line.substr(0, 200) << " at " << offset;
    }
  }
  EXPECT_GT(instructions, 10000u);
}

INSTANTIATE_TEST_SUITE_P(CPython, InterpreterTest, ::testing::Range(9, 15),
                         [](const auto& minor) { return absl::StrCat("3_", minor.param); });

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
