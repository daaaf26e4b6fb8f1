// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "example_forecast.h"
#include "planner/predict/plan_answer.h"
#include "render/draw.h"

namespace gpumem::plan {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kGiB;
using testing::kMiB;

Reduction Way(const std::string& name, uint64_t need, ReductionCost cost, const std::string& cost_text) {
  Reduction way;
  way.changes = {name};
  way.text = "with " + name;
  way.cost = cost;
  way.cost_text = cost_text;
  way.applied = way.of = 1;
  way.need = need;
  return way;
}

Explanation ExampleExplanation() {
  Explanation explanation;
  explanation.goal = 6 * kGiB;
  explanation.need = 8 * kGiB;
  explanation.ways = {Way("fused", 7 * kGiB, ReductionCost::kNothing, "nothing"),
                      Way("8bit_states", 5 * kGiB, ReductionCost::kRounding, "other results: rounding")};
  explanation.ways[1].other_results = "Adam's averages are rounded to 8 bits";
  explanation.without_use = {Way("foreach", 8 * kGiB, ReductionCost::kNothing, "more kernels"),
                             Way("offload", 8 * kGiB - 3 * kMiB, ReductionCost::kTransfers, "transfers"),
                             Way("bf16_states", 8 * kGiB + 5 * kMiB, ReductionCost::kRounding, "rounding")};
  Reduction refused = Way("checkpointing", 0, ReductionCost::kRecompute, "");
  refused.need.reset();
  refused.why = "the program fails with it: RuntimeError: no";
  Reduction same = refused;
  same.text = "with fused";
  explanation.not_possible = {refused, same};
  explanation.to_fit = explanation.ways[1];
  explanation.runs = 12;
  explanation.max_runs = 30;
  return explanation;
}

std::string PageText(const Explanation& explanation) {
  Forecast forecast = testing::ExampleForecast();
  forecast.explanation = explanation;
  TextStyle style;
  style.width = 1000;
  Document answer;
  AddExplanation(forecast, &answer);
  return ToText(answer, style);
}

TEST(ExplanationPageTest, SaysWhatItTakesToFit) {
  const std::string text = PageText(ExampleExplanation());
  EXPECT_THAT(text, AllOf(HasSubstr("  To fit 6 GiB: with 8bit_states: 5 GiB. Cost: other results: rounding.\n"),
                          HasSubstr("12 further runs")));
  EXPECT_THAT(text, HasSubstr("with fused"));
  EXPECT_LT(text.find("with fused"), text.rfind("with 8bit_states"));
}

TEST(ExplanationPageTest, WhatSavesALittleDoesNotSaveNothing) {
  EXPECT_THAT(
      PageText(ExampleExplanation()),
      HasSubstr("  Saves less than 0.5 % by itself: with foreach (nothing); with offload (3 MiB); with bf16_states "
                "(needs 5 MiB more).\n"));
}

TEST(ExplanationPageTest, WhatIsNotPossibleSaysWhy) {
  EXPECT_THAT(
      PageText(ExampleExplanation()),
      HasSubstr("  Not possible: with checkpointing; with fused. Why: the program fails with it: RuntimeError: no.\n"));
}

TEST(ExplanationPageTest, GoalsThatAreReachedOrOutOfReach) {
  Explanation explanation = ExampleExplanation();
  explanation.goal = 9 * kGiB;
  explanation.to_fit.reset();
  EXPECT_THAT(PageText(explanation), HasSubstr("  It fits 9 GiB as it is: 8 GiB"));
  explanation.room = 512 * kMiB;
  EXPECT_THAT(PageText(explanation), HasSubstr("8 GiB, and up to 512 MiB more, which is open as above"));
  explanation.goal = 2 * kGiB;
  explanation.least = explanation.ways[1];
  EXPECT_THAT(PageText(explanation),
              HasSubstr("  Nothing that was tried reaches 2 GiB. The least is 5 GiB, and up to 512 "
                        "MiB more, which is open as above: with 8bit_states."));
  explanation.least.reset();
  EXPECT_THAT(PageText(explanation), HasSubstr("  Nothing that was tried saves anything, so 2 GiB is not reached.\n"));
}

TEST(ExplanationPageTest, WhatIsAppliedInPartSaysWhere) {
  Explanation explanation = ExampleExplanation();
  explanation.ways[0].of = 2;
  explanation.ways[0].why = "SGD has no fused form";
  EXPECT_THAT(PageText(explanation), HasSubstr("nothing; applied to 1 of 2: SGD has no fused form"));
}

TEST(ExplanationPageTest, WithoutItNothingIsSaid) {
  Document answer;
  AddExplanation(testing::ExampleForecast(), &answer);
  EXPECT_TRUE(answer.items().empty());
}

TEST(ExplanationJsonTest, HasAllNumbers) {
  Forecast forecast = testing::ExampleForecast();
  EXPECT_FALSE(json::parse(ToJson(PlanAnswer(forecast))).contains("explain"));
  forecast.explanation = ExampleExplanation();
  const json explain = json::parse(ToJson(PlanAnswer(forecast)))["explain"];
  EXPECT_EQ(explain["goal_bytes"], 6 * kGiB);
  EXPECT_EQ(explain["need_bytes"], 8 * kGiB);
  EXPECT_EQ(explain["open_bytes"], 0);
  EXPECT_EQ(explain["reached"], false);
  EXPECT_EQ(explain["runs"], 12);
  EXPECT_EQ(explain["max_runs"], 30);
  EXPECT_TRUE(explain["least"].is_null());
  EXPECT_EQ(explain["to_fit"], explain["ways"][1]);
  EXPECT_EQ(explain["ways"][1], (json{{"changes", {"8bit_states"}},
                                      {"text", "with 8bit_states"},
                                      {"cost", "rounding"},
                                      {"cost_text", "other results: rounding"},
                                      {"other_results", "Adam's averages are rounded to 8 bits"},
                                      {"applied", 1},
                                      {"of", 1},
                                      {"why", ""},
                                      {"need_bytes", 5 * kGiB}}));
  EXPECT_EQ(explain["without_use"].size(), 3u);
  EXPECT_TRUE(explain["not_possible"][0]["need_bytes"].is_null());
}

}  // namespace
}  // namespace gpumem::plan
