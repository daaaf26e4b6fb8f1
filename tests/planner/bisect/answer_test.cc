// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/bisect/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "render/draw.h"
#include "testing/key_tables.h"

namespace gpumem::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kMiB = 1 << 20;

BisectAnswer History() {
  BisectAnswer answer;
  answer.good = "v1";
  answer.bad = "HEAD";
  answer.states = 40;
  answer.runs = 4;
  answer.looks = {{0, {"aaa", "", "2026-01-01", "Ada", "First"}, 100 * kMiB, "", "traces/a.gmtrace", 0},
                  {20, {"bbb", "", "2026-01-02", "Bob", "Broken"}, std::nullopt, "NameError: x", "", 0},
                  {21, {"ccc", "", "2026-01-03", "Cyd", "Keep logits"}, 150 * kMiB, "", "traces/c.gmtrace", 0},
                  {39, {"ddd", "", "2026-01-04", "Dan", "Last"}, 149 * kMiB, "", "traces/d.gmtrace", 0}};
  answer.steps = {{0,
                   2,
                   50 * int64_t{kMiB},
                   {"bbb"},
                   0,
                   {"+50 MiB at the peak: logits", "group", {}},
                   {true, 100 * kMiB, 150 * kMiB}},
                  {2, 3, -int64_t{kMiB}, {}, 17, {}, {}}};
  return answer;
}

BisectAnswer OfSettings() {
  BisectAnswer answer;
  answer.kind = BisectKind::kSettings;
  answer.good = "a.yaml";
  answer.bad = "b.yaml";
  answer.settings.changes = {{"lr", "1", "2"}, {"eval.every", "0", "2"}, {"eval.batch", std::nullopt, "128"}};
  answer.settings.found = {1, 2};
  answer.settings.alone = {100 * kMiB, std::nullopt};
  answer.settings.good = 100 * kMiB;
  answer.settings.bad = 201 * kMiB;
  answer.settings.with_found = 200 * kMiB;
  answer.settings.other = {true, 100 * kMiB, 200 * kMiB};
  return answer;
}

std::string Text(const BisectAnswer& answer) {
  TextStyle style;
  style.width = 200;
  return ToText(BisectDocument(answer), style);
}

TEST(BisectAnswerTest, TheStepComesFirstWithWhatMayBeItAsWell) {
  const std::string text = Text(History());
  EXPECT_EQ(text.find("ccc: +50 MiB allocated at the peak (100 MiB -> 150 MiB, +50.0 %)"), 0) << text;
  EXPECT_THAT(text, HasSubstr("Keep logits (Cyd, 2026-01-03)"));
  EXPECT_THAT(text, HasSubstr("or one of 1 state between aaa and it that cannot be run: bbb"));
  EXPECT_THAT(text, HasSubstr("Other steps: ddd -1 MiB"));
  EXPECT_THAT(text, HasSubstr("cannot be run: NameError: x"));
  EXPECT_THAT(text, HasSubstr("4 of 40 commits were looked at, in 4 new runs"));
  EXPECT_THAT(text, HasSubstr("Steps that cancel each other between two of them were not seen"));
}

TEST(BisectAnswerTest, SettingsThatActTogether) {
  const std::string text = Text(OfSettings());
  EXPECT_EQ(text.find("eval.every 0 -> 2 and eval.batch (new) 128, together: +100 MiB allocated at the peak"), 0)
      << text;
  EXPECT_THAT(text, HasSubstr("Alone: eval.every +0 B"));
  EXPECT_THAT(text, HasSubstr("Alone: eval.batch cannot be run"));
  EXPECT_THAT(text, HasSubstr("The other 1 setting that differs adds +1 MiB"));
}

TEST(BisectAnswerTest, ValuesThatNobodyComputedAreADoubtWhereTheyChangeSomething) {
  BisectAnswer answer = History();
  EXPECT_THAT(Text(answer), Not(HasSubstr("Not certain")));
  answer.steps[0].other = {true, 100 * kMiB, 150 * kMiB};
  EXPECT_THAT(Text(answer), Not(HasSubstr("Not certain")));
  answer.steps[0].other.after = 100 * kMiB;
  EXPECT_THAT(Text(answer), HasSubstr("Not certain: with other values where nobody computed them: 100 MiB -> 100 MiB"));
  answer.steps[0].other.before.reset();
  EXPECT_THAT(Text(answer), HasSubstr("not known -> 100 MiB"));
}

TEST(BisectAnswerTest, NothingFound) {
  BisectAnswer answer = History();
  answer.steps.clear();
  EXPECT_THAT(Text(answer), HasSubstr("No step: what was looked at needs the same."));
  answer.above = 500 * kMiB;
  EXPECT_THAT(Text(answer), HasSubstr("None is above 500 MiB.\n"));
  answer.above = 50 * kMiB;
  EXPECT_THAT(Text(answer), HasSubstr("The first is above 50 MiB already."));
  for (BisectLook& look : answer.looks) look.bytes.reset();
  EXPECT_THAT(Text(answer), HasSubstr("Not known: nothing of it runs."));
  answer = OfSettings();
  answer.settings.bad.reset();
  answer.settings.bad_reason = "KeyError: 'x'";
  EXPECT_THAT(Text(answer), HasSubstr("b.yaml: KeyError: 'x'"));
}

TEST(BisectAnswerTest, TheTablesOfItsPageAreWhatItDeclares) {
  const BisectAnswer history = History(), settings = OfSettings();
  testing::ExpectKeyTablesOf("commands/bisect.md",
                             {{"history", BisectDocument(history)}, {"settings", BisectDocument(settings)}}, {});
}

}  // namespace
}  // namespace gpumem::plan
