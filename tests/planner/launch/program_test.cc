// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/launch/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpumem::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PythonCommandTest, Scripts) {
  const std::optional<PythonCommand> plain = ParsePythonCommand({"python", "train.py", "-m", "x"});
  ASSERT_TRUE(plain.has_value());
  EXPECT_THAT(plain->interpreter, ElementsAre("python"));
  EXPECT_EQ(plain->script, "train.py");
  EXPECT_THAT(plain->arguments, ElementsAre("-m", "x"));
  const std::optional<PythonCommand> options =
      ParsePythonCommand({"/x/bin/python3.11", "-u", "-X", "dev", "-Wignore", "-W", "error", "--", "-x.py"});
  ASSERT_TRUE(options.has_value());
  EXPECT_THAT(options->interpreter, ElementsAre("/x/bin/python3.11", "-u", "-X", "dev", "-Wignore", "-W", "error"));
  EXPECT_EQ(options->script, "-x.py");
  EXPECT_THAT(options->arguments, IsEmpty());
}

TEST(PythonCommandTest, Modules) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"python3", "-m", "pkg.train", "1"}, {"python3", "-mpkg.train", "1"}}) {
    const std::optional<PythonCommand> parsed = ParsePythonCommand(command);
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(parsed->module, "pkg.train");
    EXPECT_EQ(parsed->script, "");
    EXPECT_THAT(parsed->arguments, ElementsAre("1"));
    EXPECT_THAT(parsed->interpreter, ElementsAre("python3"));
  }
  EXPECT_THAT(ParsePythonCommand({"python3", "-um", "x"})->interpreter, ElementsAre("python3", "-u"));
}

TEST(PythonCommandTest, WhatIsNeither) {
  for (const std::vector<std::string>& command : {std::vector<std::string>{},
                                                  {"python"},
                                                  {"python", "-c", "pass"},
                                                  {"python", "-cpass"},
                                                  {"python", "-"},
                                                  {"python", "-m"},
                                                  {"torchrun", "train.py"},
                                                  {"./train.py"},
                                                  {"pythonic", "x.py"},
                                                  {"python", "-u", "--"}}) {
    EXPECT_FALSE(ParsePythonCommand(command).has_value()) << ::testing::PrintToString(command);
  }
}

}  // namespace
}  // namespace gpumem::plan
