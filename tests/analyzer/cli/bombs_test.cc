// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// Small files that ask for much: every command answers them, within limits of time and memory that are far from what
// they ask for.

#include "testing/bombs.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "program.h"

namespace gpumem {
namespace {

using testing::Bomb;
using testing::Outcome;
using testing::RunGpumem;

// A stop, no measure: without the limits in the reader single bombs take minutes and gigabytes.
constexpr testing::Limits kLimits{20, uint64_t{1} << 30};

class BombTest : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(BombTest, IsAnswered) {
  const std::string folder = testing::MakeFolder();
  for (const Bomb& bomb : testing::MakeBombs()) {
    EXPECT_LT(bomb.bytes.size(), size_t{1} << 20) << bomb.name;
    testing::WriteFile(folder + "/run.gmtrace", bomb.bytes);
    std::filesystem::remove(folder + "/out");
    std::vector<std::string> arguments = GetParam();
    arguments.push_back("run.gmtrace");
    const Outcome outcome = RunGpumem(arguments, folder, {}, kLimits);
    const bool is_fine = outcome.exit_code == 0 || outcome.exit_code == 4 ||
                         ((GetParam().back() == "trace" || arguments[0] == "oom") && outcome.exit_code < 4);
    EXPECT_TRUE(is_fine) << bomb.name << " (" << bomb.bytes.size() << " bytes) ended " << arguments[0] << " with "
                         << outcome.exit_code << ": " << outcome.err.substr(0, 300);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Commands, BombTest,
    ::testing::Values(std::vector<std::string>{"report"}, std::vector<std::string>{"report", "--json"},
                      std::vector<std::string>{"peak"}, std::vector<std::string>{"leaks"},
                      std::vector<std::string>{"timeline", "--json"}, std::vector<std::string>{"fragmentation"},
                      std::vector<std::string>{"oom"}, std::vector<std::string>{"info"},
                      std::vector<std::string>{"explain"}, std::vector<std::string>{"export", "packets"},
                      std::vector<std::string>{"export", "events"}, std::vector<std::string>{"tree"},
                      std::vector<std::string>{"table"}, std::vector<std::string>{"sizes"},
                      std::vector<std::string>{"export", "collapsed"}, std::vector<std::string>{"flame", "-o", "out"},
                      std::vector<std::string>{"html", "-o", "out"}, std::vector<std::string>{"steps"},
                      std::vector<std::string>{"stages"}, std::vector<std::string>{"modules"},
                      std::vector<std::string>{"model"}, std::vector<std::string>{"at", "1ms"},
                      std::vector<std::string>{"export", "trace", "--names", "-o", "out"},
                      std::vector<std::string>{"export", "trace"}, std::vector<std::string>{"ranks"},
                      std::vector<std::string>{"live", "--once"}, std::vector<std::string>{"bundle"}),
    [](const auto& instance) {
      std::string name;
      for (const std::string& word : instance.param) {
        if (word[0] != '-' || word.size() > 2) name += word.substr(word.find_first_not_of('-'));
      }
      return name;
    });

}  // namespace
}  // namespace gpumem
