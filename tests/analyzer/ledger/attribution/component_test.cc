// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/component.h"

#include <gtest/gtest.h>

namespace gpumem {
namespace {

TEST(ComponentOf, AModulesOwnComesFirst) {
  EXPECT_EQ(ComponentOf("mlp", false, Category::kActivation, Stage::kForward), "mlp");
  EXPECT_EQ(ComponentOf("mlp", true, Category::kTemporary, Stage::kBackward), "mlp") << "a loss that runs a model";
  EXPECT_EQ(ComponentOf("root", false, Category::kTemporary, Stage::kForward), "root");
}

TEST(ComponentOf, ALossIsNotTheModelsThatCallsIt) {
  for (const absl::string_view container : {"root", "block", "other", ""})
    EXPECT_EQ(ComponentOf(container, true, Category::kTemporary, Stage::kBackward), "loss") << container;
}

TEST(ComponentOf, OutsideOfAllModulesItIsWhatMemoryServes) {
  EXPECT_EQ(ComponentOf("other", false, Category::kWorkspace, Stage::kForward), "workspace");
  EXPECT_EQ(ComponentOf("other", false, Category::kOptimizerState, Stage::kNone), "optimizer");
  EXPECT_EQ(ComponentOf("other", false, Category::kTemporary, Stage::kOptimizer), "optimizer");
  EXPECT_EQ(ComponentOf("other", false, Category::kTemporary, Stage::kCollective), "communication");
  EXPECT_EQ(ComponentOf("", false, Category::kUnknown, Stage::kData), "input");
  EXPECT_EQ(ComponentOf("other", false, Category::kTemporary, Stage::kBackward), "other");
}

}  // namespace
}  // namespace gpumem
