// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Text and JSON of memory by category.

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "answers/parts/attribution_answer.h"
#include "answers/parts/attribution_parts.h"
#include "answers/parts/model_parts.h"
#include "answers/training/training.h"
#include "fixture.h"
#include "render/draw.h"
#include "testing/sizes.h"

namespace gpumem {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using testing::Example;
using ::testing::HasSubstr;
using testing::kGiB;
using ::testing::Not;

class AttributionReportTest : public ::testing::Test {
 protected:
  AttributionReportTest() { testing::AddAttribution(&example_); }
  json AtJson() {
    const ReportInput input = example_.input();
    return json::parse(ToJson(AtAnswer("peak", input, {})));
  }
  std::string Categories() {
    Document answer;
    AddCategories(example_.attribution.moments[0], "the peak", example_.input(), &answer);
    return ToText(answer, {});
  }
  Example example_ = testing::TrainingExample();
};

TEST_F(AttributionReportTest, AtJsonHasTheNamesThatScriptsRelyOn) {
  const json answer = AtJson();
  EXPECT_EQ(answer["categories"].size(), kCategories);
  EXPECT_EQ(answer["categories"]["activation"], 30 * kGiB);
  EXPECT_EQ(answer["categories"]["unknown"], 0);
  EXPECT_EQ(answer["bytes"], 40 * kGiB);
  EXPECT_EQ(answer["modules"][0]["fqn"], "h.0.mlp");
  EXPECT_EQ(answer["modules"][0]["class"], "MLP");
  EXPECT_EQ(answer["modules"][0]["bytes"], 36 * kGiB);
  EXPECT_EQ(answer["modules"][0]["by_category"]["optimizer_state"], 6 * kGiB);
  EXPECT_EQ(answer["stacks"][0]["known_by"], "autograd");
  EXPECT_EQ(answer["components"]["mlp"], 36 * kGiB);
  EXPECT_EQ(answer["component_details"][0]["component"], "mlp");
  EXPECT_EQ(answer["component_details"][0]["by_category"]["activation"], 30 * kGiB);
  EXPECT_EQ(answer["component_details"][0]["by_stage"], (json{{"forward", 30 * kGiB}, {"optimizer_step", 6 * kGiB}}));
  EXPECT_EQ(answer["stages"]["forward"], 30 * kGiB);
}

TEST_F(AttributionReportTest, PartsOfACategoryAreShownWhereTheySaySomething) {
  Moment& moment = example_.attribution.moments[0];
  moment.categories[Index(Category::kParameter)] = 6 * kGiB;
  moment.parts[Index(Part::kTrainable)] = 6 * kGiB;
  EXPECT_THAT(Categories(), Not(HasSubstr("of these")));
  moment.parts[Index(Part::kTrainable)] = 2 * kGiB;
  moment.parts[Index(Part::kFrozen)] = 4 * kGiB;
  EXPECT_THAT(Categories(), AllOf(HasSubstr("of these trainable"), HasSubstr("of these frozen")));
  const json parts = AtJson()["category_parts"];
  EXPECT_EQ(parts["parameter"]["frozen"], 4 * kGiB);
  EXPECT_EQ(parts["gradient"]["per_sample"], 0);
}

TEST_F(AttributionReportTest, StepsJsonHasTheNamesThatScriptsRelyOn) {
  const json answer = json::parse(ToJson(StepsAnswer(example_.input(), 0)));
  const json& step = answer["steps"][0];
  EXPECT_EQ(step["step"], 3);
  EXPECT_EQ(step["start_bytes"], 10 * kGiB);
  EXPECT_EQ(step["peak_bytes"], 36 * kGiB);
  EXPECT_EQ(step["end_bytes"], 12 * kGiB);
  EXPECT_EQ(step["growth_bytes"], 2 * kGiB);
  EXPECT_EQ(answer["counted_by"], "optimizer");
}

TEST_F(AttributionReportTest, ModelJsonHasTheNamesThatScriptsRelyOn) {
  const json answer = json::parse(ToJson(ModelAnswer(example_.input(), example_.objects, 0)));
  const json& totals = answer["totals"];
  EXPECT_EQ(totals["parameters"], 64);
  EXPECT_EQ(totals["parameter_bytes"], 192);
  EXPECT_EQ(totals["trainable_parameters"], 32);
  EXPECT_EQ(totals["frozen_bytes"], 64);
  EXPECT_EQ(totals["lora_parameters"], 32);
  EXPECT_EQ(totals["gradient_bytes"], 128);
  EXPECT_EQ(totals["optimizer_state_bytes"], 256);
  EXPECT_EQ(totals["bytes_by_dtype"]["bfloat16"], 64);
  EXPECT_EQ(answer["parameters"][0]["shape"], (std::vector<int>{4, 8}));
  EXPECT_EQ(answer["parameters"][0]["optimizer"], "AdamW");
  EXPECT_EQ(answer["parameters"][0]["group"], 1);
  EXPECT_TRUE(answer["parameters"][1]["group"].is_null());
  EXPECT_EQ(answer["parameters"][1]["component"], "mlp");
  EXPECT_EQ(totals["trainable_percent"], 50.0);
}

TEST_F(AttributionReportTest, ModelHasGroupsByComponentTypeDeviceAndOptimizer) {
  std::map<std::string, json> groups;
  const json answer = json::parse(ToJson(ModelAnswer(example_.input(), example_.objects, 0)));
  for (const json& group : answer["groups"])
    groups[group["by"].get<std::string>() + " " + group["name"].get<std::string>()] = group;
  EXPECT_EQ(groups.size(), 5u);
  EXPECT_EQ(groups["component mlp"]["parameter_bytes"], 192);
  EXPECT_EQ(groups["dtype float32"]["trainable_bytes"], 128);
  EXPECT_EQ(groups["dtype bfloat16"]["frozen_parameters"], 32);
  EXPECT_EQ(groups["dtype bfloat16"]["trainable_percent"], 0.0);
  EXPECT_EQ(groups["device cuda:0"]["gradient_bytes"], 128);
  EXPECT_EQ(groups["optimizer_group AdamW 1"]["optimizer_state_bytes"], 256);
}

TEST_F(AttributionReportTest, ALargeParameterIsMarked) {
  const auto is_large = [&] {
    return json::parse(ToJson(ModelAnswer(example_.input(), example_.objects, 0)))["parameters"][1]["large"];
  };
  example_.attribution.parameters[1].bytes = kLargeParameterBytes;
  EXPECT_EQ(is_large(), false);
  example_.attribution.parameters[1].bytes = kLargeParameterBytes + 1;
  EXPECT_EQ(is_large(), true);
  Page page{TextStyle{}};
  Draw(ModelAnswer(example_.input(), example_.objects, 0), &page);
  EXPECT_THAT(page.text(), ContainsRegex("frozen, large +h.0.mlp.weight\n"));
}

TEST_F(AttributionReportTest, ReportHasCategoriesWhereTheyAreKnown) {
  EXPECT_EQ(json::parse(testing::ReportJson(example_.input()))["attribution"]["categories"]["activation"], 30 * kGiB);
  EXPECT_TRUE(json::parse(testing::ReportJson(testing::TrainingExample().input()))["attribution"].is_null());
}

TEST_F(AttributionReportTest, TextListsCategoriesAndAlwaysTheUnknown) {
  EXPECT_THAT(Categories(), AllOf(HasSubstr("activations"), HasSubstr("autograd"), HasSubstr("unknown"),
                                  Not(HasSubstr("not observed"))));
  example_.attribution.has_tensors = false;
  EXPECT_THAT(Categories(), HasSubstr("not observed"));
}

TEST_F(AttributionReportTest, TextOfStepsModulesAndModel) {
  Page page{TextStyle{}};
  Draw(StepsAnswer(example_.input(), 0), &page);
  Draw(ModulesAnswer(example_.input(), 0), &page);
  Draw(ModelAnswer(example_.input(), example_.objects, 0), &page);
  const ReportInput input = example_.input();
  Draw(MomentAnswer("peak", input, {}), &page);
  EXPECT_THAT(page.text(), HasSubstr("+2 GiB"));
  EXPECT_THAT(page.text(), HasSubstr("h.0.mlp (MLP)"));
  EXPECT_THAT(page.text(), ContainsRegex("frozen +h.0.mlp.weight\n"));
  EXPECT_THAT(page.text(), HasSubstr("By module"));
  EXPECT_THAT(page.text(), HasSubstr("By component"));
  EXPECT_THAT(page.text(), ContainsRegex("30 GiB +- +6 GiB +mlp"));
}

TEST_F(AttributionReportTest, NothingKnownIsSaid) {
  example_.attribution = {};
  Page page{TextStyle{}};
  Draw(StepsAnswer(example_.input(), 0), &page);
  Draw(ModelAnswer(example_.input(), ObjectTable(), 0), &page);
  EXPECT_THAT(page.text(), HasSubstr("No steps"));
  EXPECT_THAT(page.text(), HasSubstr("No parameters are known"));
}

}  // namespace
}  // namespace gpumem
