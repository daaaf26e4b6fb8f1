// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/leaks/python_statements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;

std::vector<PythonStatement> Parse(absl::string_view text) { return PythonStatements(absl::StrSplit(text, '\n')); }

TEST(PythonStatements, JoinsOpenBracketsAndSplitsAssignments) {
  const auto statements =
      Parse("loss = criterion(  # of a batch\n    model(x=1),\n    y)\ntotal += loss\nif a == b: pass");
  ASSERT_EQ(statements.size(), 3u);
  EXPECT_EQ(statements[0].first_line, 1u);
  EXPECT_EQ(statements[0].last_line, 3u);
  EXPECT_EQ(statements[0].target, "loss");
  EXPECT_EQ(statements[0].op, "");
  EXPECT_EQ(statements[1].target, "total");
  EXPECT_EQ(statements[1].op, "+");
  EXPECT_EQ(statements[1].value, "loss");
  EXPECT_EQ(statements[2].target, "") << "a comparison";
}

TEST(PythonStatements, LeavesTheInsideOfStringsOut) {
  const auto statements = Parse("a = 'x = (' + b  # c = 1\n'''d = 1\ne = 2'''\nf: int = g");
  ASSERT_EQ(statements.size(), 3u);
  EXPECT_EQ(statements[0].value, "\"\" + b");
  EXPECT_EQ(statements[1].target, "");
  EXPECT_EQ(statements[2].target, "f");
}

TEST(PythonStatements, AnyTextIsAccepted) {
  for (const char* text : {"", "(((", "'''", "\\", "=", "==", "a =", "\t\t= b", "x[", "}}}} = 1", "\"\\"}) Parse(text);
  EXPECT_LE(Parse(std::string(100000, '(')).size(), 1u);
}

TEST(BodyAround, IsTheInnermostFunction) {
  const auto statements = Parse("def f():\n  a = 1\n  def g():\n    b = 2\n  c = 3\nd = 4");
  EXPECT_EQ(BodyAround(statements, 4).size(), 2u) << "g";
  EXPECT_EQ(BodyAround(statements, 5).size(), 5u) << "f";
  EXPECT_EQ(BodyAround(statements, 6).size(), 6u) << "the module";
  EXPECT_TRUE(BodyAround(statements, 60).empty());
}

TEST(NamesIn, AreDottedAndNoNumbers) {
  EXPECT_THAT(NamesIn("self.total + 2.5 * loss[3].mean()"), ElementsAre("self.total", "loss"));
}

}  // namespace
}  // namespace gpumem
