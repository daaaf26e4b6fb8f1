// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpumem::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr char kFull[] = R"(
command: python train.py --batch-size {batch_size} --note "two words" --rank={rank}
axes:
  batch_size: [1, 2, 4]
  rank: 8..32x2
  env:MODE: ["", fast]
configurations:
  - {batch_size: 64, rank: 8}
constraints:
  - batch_size * rank <= 64
environment: {TOKENIZERS_PARALLELISM: false}
model: gpt2
steps: 5
device: a100
results_dir: out
workers: 3
)";

SweepSpec Parsed(const std::string& text) {
  absl::StatusOr<SweepSpec> spec = ParseSpec(text, "sweep.yaml");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *std::move(spec) : SweepSpec();
}

std::string Mistake(const std::string& text) { return ParseSpec(text, "sweep.yaml").status().ToString(); }

TEST(SpecTest, AllKeys) {
  const SweepSpec spec = Parsed(kFull);
  EXPECT_THAT(spec.command, ElementsAre("python", "train.py", "--batch-size", "{batch_size}", "--note", "two words",
                                        "--rank={rank}"));
  ASSERT_EQ(spec.axes.size(), 3);
  EXPECT_THAT(spec.axes[1].values, ElementsAre("8", "16", "32"));
  EXPECT_EQ(spec.axes[2].kind, Axis::Kind::kEnvironment);
  EXPECT_THAT(spec.axes[2].values, ElementsAre("", "fast"));
  EXPECT_THAT(spec.constants, ElementsAre(Pair("model", "gpt2")));
  EXPECT_THAT(spec.environment, ElementsAre(Pair("TOKENIZERS_PARALLELISM", "false")));
  EXPECT_EQ(spec.steps + spec.device + spec.results_dir + spec.workers, "5a100out3");
}

TEST(SpecTest, ConfigurationsAreAllCombinationsThatHold) {
  size_t excluded = 0;
  const absl::StatusOr<std::vector<Configuration>> all = Configurations(Parsed(kFull), &excluded);
  ASSERT_TRUE(all.ok()) << all.status();
  // 3 x 3 x 2, of which (4, 32) twice and (64, 8) once are too much.
  EXPECT_EQ(all->size(), 16);
  EXPECT_EQ(excluded, 3);
  EXPECT_THAT(all->front(), ElementsAre(Pair("batch_size", "1"), Pair("rank", "8"), Pair("env:MODE", "")));
  EXPECT_THAT((*all)[1], ElementsAre(Pair("batch_size", "1"), Pair("rank", "8"), Pair("env:MODE", "fast")));
}

TEST(SpecTest, EachConfigurationIsThereOnce) {
  SweepSpec spec = Parsed("command: a {x}\naxes: {x: [1, 1, 2]}\nconfigurations: [{x: 2}, {x: 3}]\n");
  size_t excluded = 0;
  EXPECT_EQ(Configurations(spec, &excluded)->size(), 3);
}

TEST(SpecTest, TooManyAreRefusedBeforeTheyAreMade) {
  SweepSpec spec = Parsed("command: a\naxes: {a: 1..5000, b: 1..5000, c: 1..5000, d: 1..5000, e: 1..5000}\n");
  size_t excluded = 0;
  EXPECT_THAT(Configurations(spec, &excluded).status().ToString(), HasSubstr("10,000"));
}

TEST(SpecTest, CommandsHaveTheValuesInTheirPlaces) {
  SweepSpec spec = Parsed(
      "command: python -m x --lr 1 --mode={mode} --flag --batch_size 1 a.b=1 {model}\nmodel: m\n"
      "axes: {mode: [a], batch-size: [7], flag: [false], other: [true], a.b: [2], env:E: [e]}\n");
  ASSERT_TRUE(PutConstants(&spec).ok());
  size_t excluded = 0;
  const absl::StatusOr<VariedCommand> command = CommandOf(spec, Configurations(spec, &excluded)->front());
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_THAT(command->command,
              ElementsAre("python", "-m", "x", "--lr", "1", "--mode=a", "--batch_size", "7", "a.b=2", "m", "--other"));
  EXPECT_THAT(command->environment, ElementsAre(Pair("E", "e")));
}

TEST(SpecTest, MistakesNameFileAndLine) {
  EXPECT_THAT(Mistake("command: a\nsteps: [1]\n"), HasSubstr("sweep.yaml:2: one value"));
  EXPECT_THAT(Mistake("command: a\n\naxis: {}\n"), HasSubstr("sweep.yaml:3: \"axis\" is not a key"));
  EXPECT_THAT(Mistake("axes: {x: []}\n"), HasSubstr("needs a list of values"));
  EXPECT_THAT(Mistake("axes: {x: [[1]]}\n"), HasSubstr("one value"));
  EXPECT_THAT(Mistake("- a\n"), HasSubstr("mapping"));
  EXPECT_THAT(Mistake(""), HasSubstr("mapping"));
  EXPECT_THAT(Mistake("a: [\n"), HasSubstr("not YAML"));
  EXPECT_THAT(Mistake("command: 'a \"b'\n"), HasSubstr("quote"));
  EXPECT_THAT(Mistake("constraints: [a <]\n"), HasSubstr("sweep.yaml:1: constraint 'a <'"));
  EXPECT_THAT(Mistake(std::string(2 << 20, ' ')), HasSubstr("too large"));
  EXPECT_FALSE(ParseSpec(std::string(100'000, '['), "sweep.yaml").ok());
}

TEST(SpecTest, Axes) {
  EXPECT_THAT(ParseSweepAxis("--batch-size=1,2")->name, "batch-size");
  EXPECT_THAT(ParseSweepAxis("n=3..5")->values, ElementsAre("3", "4", "5"));
  EXPECT_THAT(ParseSweepAxis("n=3..25x2")->values, ElementsAre("3", "6", "12", "24"));
  EXPECT_THAT(ParseSweepAxis("n=9223372036854775806..9223372036854775807x2")->values.size(), 1);
  EXPECT_THAT(ParseSweepAxis("path=../a,../b")->values, ElementsAre("../a", "../b"));
  EXPECT_FALSE(ParseSweepAxis("n").ok());
  EXPECT_FALSE(ParseSweepAxis("n=5..3").ok());
  EXPECT_FALSE(ParseSweepAxis("n=1..8x1").ok());
  EXPECT_FALSE(ParseSweepAxis("n=0..8x2").ok());
  EXPECT_FALSE(ParseSweepAxis("n=1..9999999999").ok());
}

TEST(SpecTest, WordsOfACommand) {
  EXPECT_THAT(*SplitWords("  a 'b c'  \"d\"e \\\"f \"\" "), ElementsAre("a", "b c", "de", "\"f", ""));
  EXPECT_FALSE(SplitWords("a 'b").ok());
}

TEST(OpacusScanOptionsTest, TheExampleIsScannedWhereThereIsNoCommand) {
  OpacusScanOptions options;
  options.batch_sizes = {"8", "16"};
  options.lora_ranks = {"8", "16"};
  options.max_physical_batch_sizes = {"4", "16"};
  SweepSpec spec = SpecOf(options, {});
  size_t excluded = 0;
  EXPECT_EQ(Configurations(spec, &excluded)->size(), 6);
  EXPECT_EQ(excluded, 2);  // 16 > 8, for both ranks
  EXPECT_EQ(spec.results_dir, "./memory_results");
  EXPECT_EQ(spec.steps, "5");
  ASSERT_TRUE(PutConstants(&spec).ok());
  EXPECT_THAT(spec.command, ::testing::Contains("meta-llama/Llama-3.1-8B-Instruct"));
  EXPECT_THAT(std::string(ExampleText()), HasSubstr("max-physical-batch-size"));
}

TEST(OpacusScanOptionsTest, AnOwnCommandHasTheAxesThatItHasPlacesFor) {
  OpacusScanOptions options;
  options.seq_lengths = {"1", "2"};
  options.batch_sizes = {"8"};
  const SweepSpec spec = SpecOf(options, {"python", "x.py", "{seq_length}"});
  ASSERT_EQ(spec.axes.size(), 1);
  EXPECT_EQ(spec.axes[0].name, "seq_length");
  EXPECT_TRUE(spec.constants.empty());
  EXPECT_TRUE(spec.constraints.empty());
}

}  // namespace
}  // namespace gpumem::plan
