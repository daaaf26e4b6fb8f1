// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The search, with a made-up program in place of runs: what it needs follows from the changes that it is run with.

#include "planner/predict/find_reductions.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "example_forecast.h"

namespace gpumem::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kGiB;
using testing::kMiB;
using ::testing::Le;
using ::testing::Not;

constexpr uint64_t kBlocks = 16;

// It needs 8 GiB; changes save what `saves` says, checkpointing by the block.
struct MadeUp {
  std::map<std::string, int64_t> saves;
  std::map<std::string, std::string> fails;    // change -> the program's last line
  std::map<std::string, std::string> refuses;  // change -> why it does not apply
  std::map<std::string, uint64_t> steps;       // where they are not 4
  std::vector<std::string> runs;
  std::vector<std::string> met;  // ChangeReport::met

  MeasuredChange Run(const ChangedRun& run) {
    std::string all = run.request.what_if;
    for (const auto& [name, value] : run.request.environment) {
      if (name == "PYTORCH_CUDA_ALLOC_CONF") all += all.empty() ? "expandable_segments" : ",expandable_segments";
    }
    runs.push_back(all);
    MeasuredChange measured;
    auto need = static_cast<int64_t>(8 * kGiB);
    for (const std::string& change : std::vector<std::string>(absl::StrSplit(all, ','))) {
      const std::pair<std::string, std::string> parts = absl::StrSplit(change, absl::MaxSplits(':', 1));
      if (const auto failed = fails.find(parts.first); failed != fails.end())
        return {std::nullopt, failed->second, {}, 0};
      ChangeReport report;
      report.name = parts.first;
      report.of = parts.first == "checkpointing" ? kBlocks : 1;
      report.applied = report.of;
      if (parts.first == "checkpointing" && !parts.second.empty() && !absl::SimpleAtoi(parts.second, &report.applied))
        ADD_FAILURE() << change;
      if (const auto refused = refuses.find(parts.first); refused != refuses.end()) {
        report.applied = 0;
        report.why = refused->second;
      }
      const auto share = static_cast<int64_t>(report.applied), whole = static_cast<int64_t>(report.of);
      need -= saves[parts.first] * share / whole;
      if (change != "expandable_segments") measured.reports.push_back(report);
    }
    measured.need = static_cast<uint64_t>(need);
    measured.steps = steps.count(all) > 0 ? steps[all] : 4;
    return measured;
  }

  Explanation Find(uint64_t goal, uint64_t made_steps = 4) {
    Forecast forecast = testing::ExampleForecast();
    forecast.processes[0].reported.steps = made_steps;
    forecast.processes[0].reported.last_growth = std::min<uint64_t>(made_steps, 2);
    ChangeReport look;
    look.name = "look";
    look.met = met;
    forecast.processes[0].reported.changes = {look};
    RunRequest request;
    request.command = forecast.command;
    return FindReductions(request, forecast, goal, [this](const std::vector<ChangedRun>& asked) {
      std::vector<MeasuredChange> measured;
      for (const ChangedRun& run : asked) measured.push_back(Run(run));
      return measured;
    });
  }
};

std::vector<std::string> NamesOf(const std::vector<Reduction>& reductions) {
  std::vector<std::string> names;
  for (const Reduction& each : reductions) names.push_back(each.changes.front());
  return names;
}

TEST(FindReductionsTest, WhereItFitsEachChangeIsTriedOnce) {
  MadeUp program;
  program.saves = {{"fused", 300 * kMiB}, {"8bit_states", kGiB}, {"checkpointing", 2 * kGiB}, {"offload", 2 * kMiB}};
  const Explanation found = program.Find(9 * kGiB);
  EXPECT_TRUE(found.reached());
  EXPECT_EQ(found.runs, 9);
  EXPECT_EQ(program.runs.size(), 9u);
  EXPECT_FALSE(found.to_fit.has_value());
  EXPECT_FALSE(found.least.has_value());
  EXPECT_THAT(NamesOf(found.ways), ElementsAre("fused", "checkpointing", "8bit_states"));  // the cheapest first
  EXPECT_THAT(NamesOf(found.without_use),
              ElementsAre("expandable_segments", "foreach", "chunked_loss", "accumulate", "offload", "bf16_states"));
}

TEST(FindReductionsTest, TheBatchOfTheCommandLineIsHalved) {
  MadeUp program;
  const Explanation found = program.Find(9 * kGiB);
  EXPECT_EQ(program.runs[5], "accumulate:flag");
  EXPECT_EQ(found.without_use[5].text, "--batch-size 4, a step after every second batch");
}

TEST(FindReductionsTest, ChangesOfResultsSaySo) {
  MadeUp program;
  program.saves = {{"bf16_states", kGiB}, {"8bit_states", 2 * kGiB}};
  const Explanation found = program.Find(9 * kGiB);
  ASSERT_EQ(found.ways.size(), 2u);
  EXPECT_THAT(found.ways[0].other_results, HasSubstr("8 bits"));
  EXPECT_THAT(found.ways[1].other_results, HasSubstr("bfloat16"));
  for (const Reduction& each : found.without_use) EXPECT_EQ(each.other_results, "") << each.text;
}

TEST(FindReductionsTest, TheCheapestThatFitsAlone) {
  MadeUp program;
  program.saves = {{"8bit_states", 3 * kGiB}, {"chunked_loss", 2 * kGiB}, {"fused", kGiB}};
  const Explanation found = program.Find(6 * kGiB);
  ASSERT_TRUE(found.to_fit.has_value());
  EXPECT_THAT(found.to_fit->changes, ElementsAre("chunked_loss"));
  EXPECT_EQ(found.to_fit->need, 6 * kGiB);
  EXPECT_EQ(found.runs, 9);
}

TEST(FindReductionsTest, AsFewBlocksAsFit) {
  MadeUp program;
  program.saves = {{"checkpointing", 4 * kGiB}};  // 256 MiB a block
  const Explanation found = program.Find(8 * kGiB - 700 * kMiB);
  ASSERT_TRUE(found.to_fit.has_value());
  EXPECT_THAT(found.to_fit->changes, ElementsAre("checkpointing:3"));
  EXPECT_EQ(found.to_fit->text, "checkpoint 3 of 16 blocks");
  EXPECT_EQ(found.to_fit->need, 8 * kGiB - 768 * kMiB);
}

TEST(FindReductionsTest, TwoTogetherWithoutWhatIsNotNeeded) {
  MadeUp program;
  program.saves = {{"fused", 100 * kMiB}, {"chunked_loss", kGiB}, {"checkpointing", 2 * kGiB}};
  const Explanation found = program.Find(5 * kGiB + 512 * kMiB);
  ASSERT_TRUE(found.to_fit.has_value());
  EXPECT_THAT(found.to_fit->changes, ElementsAre("chunked_loss", "checkpointing:12"));
  EXPECT_EQ(found.to_fit->text, "loss in 8 chunks + checkpoint 12 of 16 blocks");
  EXPECT_LE(*found.to_fit->need, 5 * kGiB + 512 * kMiB);
  EXPECT_EQ(*found.to_fit->need, 8 * kGiB - kGiB - 2 * kGiB * 12 / 16);
}

TEST(FindReductionsTest, ThreeTogether) {
  MadeUp program;
  program.saves = {{"fused", kGiB}, {"chunked_loss", kGiB}, {"accumulate", kGiB}};
  const Explanation found = program.Find(5 * kGiB);
  ASSERT_TRUE(found.to_fit.has_value());
  EXPECT_THAT(found.to_fit->changes, ElementsAre("fused", "chunked_loss", "accumulate"));
}

TEST(FindReductionsTest, SmallStatesTakeThePlaceOfAFusedStep) {
  MadeUp program;
  program.saves = {{"fused", kGiB}, {"bf16_states", 2 * kGiB}, {"8bit_states", 3 * kGiB}, {"offload", kGiB}};
  const Explanation found = program.Find(4 * kGiB);
  ASSERT_TRUE(found.to_fit.has_value());
  EXPECT_THAT(found.to_fit->changes, ElementsAre("offload", "8bit_states"));
  EXPECT_THAT(found.to_fit->other_results, HasSubstr("8 bits"));
}

TEST(FindReductionsTest, AGoalThatNothingReaches) {
  MadeUp program;
  program.saves = {{"fused", kGiB}, {"foreach", kMiB}, {"checkpointing", kGiB}, {"bf16_states", kGiB}};
  const Explanation found = program.Find(kGiB);
  EXPECT_FALSE(found.to_fit.has_value());
  ASSERT_TRUE(found.least.has_value());
  EXPECT_THAT(found.least->changes, ElementsAre("fused", "checkpointing"));  // bf16 states would leave nothing to fuse
  EXPECT_EQ(found.least->need, 6 * kGiB);
  EXPECT_THAT(found.runs, Le(kMaxReductionRuns));
}

TEST(FindReductionsTest, AChangeThatBreaksTheProgramIsNoSaving) {
  MadeUp program;
  program.saves = {{"checkpointing", 4 * kGiB}, {"chunked_loss", 3 * kGiB}};
  program.fails = {{"checkpointing", "RuntimeError: a hook was called twice"}};
  const Explanation found = program.Find(5 * kGiB);
  EXPECT_THAT(NamesOf(found.ways), ElementsAre("chunked_loss"));
  ASSERT_EQ(found.not_possible.size(), 1u);
  EXPECT_EQ(found.not_possible[0].why, "the program fails with it: RuntimeError: a hook was called twice");
  EXPECT_FALSE(found.not_possible[0].need.has_value());
  EXPECT_THAT(found.to_fit->changes, ElementsAre("chunked_loss"));
}

TEST(FindReductionsTest, AProgramThatHandlesWhatTheChangeBreaksIsNotSavingEither) {
  MadeUp program;
  program.saves = {{"checkpointing", 4 * kGiB}};
  program.steps = {{"checkpointing", 1}, {"accumulate:flag", 1}};  // the peak came at step 2: half of that will do
  const Explanation found = program.Find(5 * kGiB);
  EXPECT_THAT(found.ways, IsEmpty());
  ASSERT_EQ(found.not_possible.size(), 1u);
  EXPECT_EQ(found.not_possible[0].why, "the program makes 1 step with it, and 2 are needed to compare");
  EXPECT_FALSE(found.to_fit.has_value());
}

TEST(FindReductionsTest, WhatDoesNotApplySaysWhy) {
  MadeUp program;
  program.saves = {{"fused", kGiB}};
  program.refuses = {{"checkpointing", "the program recomputes it already"}};
  const Explanation found = program.Find(9 * kGiB);
  ASSERT_EQ(found.not_possible.size(), 1u);
  EXPECT_EQ(found.not_possible[0].text, "checkpoint blocks");
  EXPECT_EQ(found.not_possible[0].why, "the program recomputes it already");
}

TEST(FindReductionsTest, WithoutStepsOnlyWhatIsForInferenceIsAsked) {
  MadeUp program;
  program.saves = {{"expandable_segments", kGiB}};
  program.refuses = {{"no_grad", "the program computes without gradients already"}, {"half_batch", "no batch"}};
  const Explanation found = program.Find(6 * kGiB, 0);
  EXPECT_EQ(found.runs, 3);
  EXPECT_THAT(NamesOf(found.ways), ElementsAre("expandable_segments"));
  EXPECT_EQ(found.not_possible.size(), 10u);
  ASSERT_TRUE(found.least.has_value());
  EXPECT_EQ(found.least->need, 7 * kGiB);
}

// What the program has says which changes are worth a run; what they cost in time nobody knows.
TEST(FindReductionsTest, WhatTheProgramHasSaysWhatIsTried) {
  MadeUp program;
  program.saves = {{"channels_last", kGiB}, {"vae_tiling", 2 * kGiB}};
  program.met = {"conv2d"};
  EXPECT_THAT(NamesOf(program.Find(9 * kGiB).ways), ElementsAre("channels_last"));
  EXPECT_THAT(program.runs, Not(::testing::Contains("vae_tiling")));
  program.met = {"conv2d", "diffusers"};
  const Explanation found = program.Find(9 * kGiB, 0);
  EXPECT_THAT(NamesOf(found.ways), ElementsAre("channels_last", "vae_tiling"));
  EXPECT_EQ(found.ways[0].cost_text, "time: unknown");
}

TEST(FindReductionsTest, NothingSavesAnything) {
  MadeUp program;
  const Explanation found = program.Find(6 * kGiB);
  EXPECT_FALSE(found.reached());
  EXPECT_FALSE(found.to_fit.has_value());
  EXPECT_FALSE(found.least.has_value());
}

TEST(FindReductionsTest, WhatNeedsMoreIsNoWay) {
  MadeUp program;
  program.saves = {{"offload", -static_cast<int64_t>(kGiB)}};
  const Explanation found = program.Find(7 * kGiB);
  EXPECT_THAT(found.ways, IsEmpty());
  EXPECT_FALSE(found.to_fit.has_value());
  for (const Reduction& each : found.without_use) EXPECT_GE(*each.need, 8 * kGiB);
}

}  // namespace
}  // namespace gpumem::plan
