// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/explain/explain.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "render/draw.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kMiB = 1 << 20;
constexpr char kSets[] = "PYTORCH_CUDA_ALLOC_CONF=";

Check Found(const std::string& question, const std::string& action, Saving saving) {
  Check check = MakeCheck(CheckTopic::kFragmentation, "fragmentation." + question, question + "?");
  check.outcome = CheckOutcome::kFound;
  check.evidence = "evidence of " + question;
  check.action = action;
  check.saving = saving;
  return check;
}

std::string TextOf(std::vector<Check> checks) {
  Explanation explanation;
  explanation.checks = std::move(checks);
  return ToText(ExplanationAnswer(explanation, /*full=*/false), TextStyle());
}

size_t Count(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(ExplainTest, TheSameSettingIsOnePieceOfAdvice) {
  const std::string text = TextOf({
      Found("scattered", std::string(kSets) + "expandable_segments:True; gpumemshim replay measures it",
            {SavingBasis::kAtMost, 300 * kMiB}),
      Found("settings", std::string(kSets) + "garbage_collection_threshold:0.8,expandable_segments:True",
            {SavingBasis::kReplayed, 200 * kMiB}),
  });
  EXPECT_EQ(Count(text, kSets), 1u);
  EXPECT_THAT(text, HasSubstr("garbage_collection_threshold:0.8,expandable_segments:True"));  // has both
  EXPECT_THAT(text, HasSubstr("saves 200 MiB (measured by replay)"));  // the surest, though it is less
  EXPECT_THAT(text, Not(HasSubstr("at most")));
  EXPECT_THAT(text, HasSubstr("evidence of scattered"));
  EXPECT_THAT(text, HasSubstr("evidence of settings"));
  EXPECT_THAT(text, Not(HasSubstr("do not add up")));  // there is one saving
}

TEST(ExplainTest, OtherAdviceStaysApart) {
  const std::string text = TextOf({
      Found("scattered", std::string(kSets) + "expandable_segments:True", {SavingBasis::kAtMost, 300 * kMiB}),
      Found("settings", std::string(kSets) + "max_split_size_mb:128", {SavingBasis::kReplayed, 200 * kMiB}),
      Found("rounding", "", {}),
      Found("cache", "", {}),
  });
  EXPECT_EQ(Count(text, kSets), 2u);
  EXPECT_EQ(Count(text, "    found   "), 4u);
  EXPECT_THAT(text, HasSubstr("do not add up"));
}

}  // namespace
}  // namespace gpumem
