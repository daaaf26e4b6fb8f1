// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/forecast_marks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fixture.h"
#include "gpumem/trace.pb.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> LinesOf(const std::vector<std::string>& texts) {
  testing::Example example = testing::TrainingExample();
  const ReportInput input = example.input();
  std::vector<MarkEntry> marks;
  for (const std::string& text : texts) marks.push_back({input.window_start_ns(), trace::MARK, 0, 0, text});
  return ForecastLines(marks, input);
}

TEST(ForecastMarks, AreLinesOfTheReport) {
  EXPECT_THAT(LinesOf({"forecast warning", "forecast warning (medium, GPU 0, step 60: soon)",
                       "forecast callback failed (exec: exited with code 3)", "forecast warning (high)"}),
              ElementsAre(::testing::MatchesRegex("warned 2 times, first at .* \\(medium, GPU 0, step 60: soon\\)"),
                          "1 callback failed, first (exec: exited with code 3)"));
}

TEST(ForecastMarks, AreTheirsAlone) { EXPECT_THAT(LinesOf({"forecast warning", "epoch (1)"}), IsEmpty()); }

TEST(ForecastMarks, AreEscapedAndCut) {
  const std::vector<std::string> lines = LinesOf({"forecast warning (\x1b[2J" + std::string(5000, 'x') + ")"});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].find('\x1b'), std::string::npos);
  EXPECT_LT(lines[0].size(), 300u);
}

}  // namespace
}  // namespace gpumem
