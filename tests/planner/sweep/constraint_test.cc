// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpumem::plan {
namespace {

using ::testing::HasSubstr;

const Configuration kValues = {
    {"batch", "8"}, {"physical", "2"}, {"dtype", "bf16"}, {"lr", "1e-4"}, {"lora.rank", "16"}};

bool Holds(const std::string& text) {
  const absl::StatusOr<Constraint> constraint = Constraint::Parse(text);
  EXPECT_TRUE(constraint.ok()) << constraint.status();
  const absl::StatusOr<bool> holds = constraint->Holds(kValues);
  EXPECT_TRUE(holds.ok()) << holds.status();
  return holds.value_or(false);
}

TEST(ConstraintTest, Comparisons) {
  EXPECT_TRUE(Holds("physical <= batch"));
  EXPECT_FALSE(Holds("physical > batch"));
  EXPECT_TRUE(Holds("physical < 3 <= batch"));
  EXPECT_FALSE(Holds("physical < batch < 8"));
  EXPECT_TRUE(Holds("batch == 8.0"));
  EXPECT_TRUE(Holds("lr == 0.0001"));
  EXPECT_TRUE(Holds("lora.rank != batch"));
}

TEST(ConstraintTest, SumsAndProducts) {
  EXPECT_TRUE(Holds("batch % physical == 0"));
  EXPECT_TRUE(Holds("batch * 2 + 1 == 17"));
  EXPECT_TRUE(Holds("(batch + 2) * 2 == 20"));
  EXPECT_TRUE(Holds("-batch < 0"));
  EXPECT_TRUE(Holds("2 * (batch - physical) / 3 == 4"));
  EXPECT_TRUE(Holds("batch - 2 - 2 == 4"));
}

TEST(ConstraintTest, Logic) {
  EXPECT_TRUE(Holds("batch > 100 or physical == 2"));
  EXPECT_FALSE(Holds("batch > 100 or physical == 2 and dtype == 'fp32'"));
  EXPECT_TRUE(Holds("not (batch > 100) and dtype == \"bf16\""));
  EXPECT_TRUE(Holds("(batch > 1 and physical > 1) or dtype == 'x'"));
  EXPECT_TRUE(Holds("dtype != 'fp32'"));
}

TEST(ConstraintTest, MistakesSayWhereTheyAre) {
  for (const char* text : {"", "batch", "batch <", "batch = 8", "(batch < 8", "batch < 8)", "batch < 8 physical",
                           "batch & 1 == 0", "dtype == 'bf16", "3x < 4", "and batch > 1", "batch < not 3"}) {
    EXPECT_FALSE(Constraint::Parse(text).ok()) << text;
  }
  EXPECT_THAT(Constraint::Parse("batch <= ").status().ToString(), HasSubstr("character 10"));
}

TEST(ConstraintTest, ValuesThatAreNone) {
  EXPECT_THAT(Constraint::Parse("bacth < 8")->Holds(kValues).status().ToString(),
              HasSubstr("\"bacth\" is not an axis"));
  EXPECT_THAT(Constraint::Parse("dtype < 8")->Holds(kValues).status().ToString(), HasSubstr("not a number"));
  EXPECT_THAT(Constraint::Parse("8 / (physical - 2) < 8")->Holds(kValues).status().ToString(), HasSubstr("zero"));
  // Both sides are looked at, whatever the first one says.
  EXPECT_FALSE(Constraint::Parse("batch > 1 or bacth < 8")->Holds(kValues).ok());
}

TEST(ConstraintTest, DeepAndLongOnesAreRefused) {
  EXPECT_FALSE(Constraint::Parse(std::string(900, '(') + "1" + std::string(900, ')') + " < 2").ok());
  EXPECT_FALSE(Constraint::Parse(std::string(3000, '1')).ok());
  EXPECT_TRUE(Holds(std::string(20, '(') + "1" + std::string(20, ')') + " < 2"));
}

}  // namespace
}  // namespace gpumem::plan
