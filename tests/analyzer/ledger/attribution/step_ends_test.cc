// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/step_ends.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace gpumem {
namespace {

// "A B A B": which of them end a step, as "|" behind each.
std::string Steps(const std::string& letters) {
  std::vector<uint32_t> optimizers;
  for (const char letter : letters) optimizers.push_back(static_cast<uint32_t>(letter));
  const std::vector<bool> ends = StepEnds(optimizers);
  std::string text;
  for (size_t i = 0; i < letters.size(); ++i) {
    text += letters[i];
    if (ends[i]) text += '|';
  }
  return text;
}

TEST(StepEnds, OneOptimizer) {
  EXPECT_EQ(Steps(""), "");
  EXPECT_EQ(Steps("A"), "A|");
  EXPECT_EQ(Steps("AAA"), "A|A|A|");
}

TEST(StepEnds, OptimizersThatTakeTurnsAreOneTraining) {
  EXPECT_EQ(Steps("ABABAB"), "A|BA|BA|B");
  EXPECT_EQ(Steps("GDDDGDDDGDDD"), "G|DDDG|DDDG|DDD");
  EXPECT_EQ(Steps("DDGDDGDDG"), "D|D|GD|D|GD|D|G");
  EXPECT_EQ(Steps("ABCABC"), "A|BCA|BC");
}

TEST(StepEnds, OptimizersThatFollowEachOtherAreTrainings) {
  EXPECT_EQ(Steps("AAAABBBBCCCC"), "A|A|A|A|B|B|B|B|C|C|C|C|") << "folds";
  EXPECT_EQ(Steps("ABCDEFGH"), "A|B|C|D|E|F|G|H|") << "a new one for each step";
  EXPECT_EQ(Steps("GDGDGDHEHEHE"), "G|DG|DG|DH|EH|EH|E") << "folds of two optimizers each";
  EXPECT_EQ(Steps("AAAABABBBBB"), "A|A|A|A|BA|B|B|B|B|B|") << "a second one joins, and goes on alone";
}

TEST(StepEnds, AnOptimizerOfEachInnerLoopIsPartOfAStep) {
  EXPECT_EQ(Steps("iiOjjOkkOllO"), "iiO|jjO|kkO|llO|");
  EXPECT_EQ(Steps("iiOjjOkkOll"), "iiO|jjO|kkO|ll") << "cut off in its last step";
}

}  // namespace
}  // namespace gpumem
