// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/digest.h"

#include <gmock/gmock.h>

#include "example_rows.h"

namespace gpumem::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kGiB;
using testing::kMiB;
using testing::RowOf;

std::vector<std::string> Names(const std::vector<PartBytes>& all) {
  std::vector<std::string> names;
  for (const PartBytes& each : all) names.push_back(each.name);
  return names;
}

TEST(DigestTest, LargestAndLeastAreOfThoseThatFit) {
  const std::vector<SweepRow> rows = testing::GptRows();
  EXPECT_EQ(LargestThatFits(rows)->number, 18);
  EXPECT_EQ(LeastThatFits(rows)->number, 1);
  EXPECT_EQ(RowToExplain(rows)->number, 18);
  const std::vector<SweepRow> none = testing::GptRows(kMiB);
  EXPECT_EQ(LargestThatFits(none), nullptr);
  EXPECT_EQ(LeastThatFits(none), nullptr);
  EXPECT_EQ(RowToExplain(none)->number, 20);
  EXPECT_EQ(RowToExplain({RowOf(1, {}, kGiB)}), nullptr);
  EXPECT_EQ(LargestThatFits({}), nullptr);
}

TEST(DigestTest, TheLargestLeavesAMarginFree) {
  std::vector<SweepRow> rows = {RowOf(1, {{"n", "1"}}, kGiB), RowOf(2, {{"n", "2"}}, 2 * kGiB),
                                RowOf(3, {{"n", "3"}}, 3 * kGiB)};
  for (SweepRow& row : rows) row.capacity = NeedOf(rows[1]);
  rows[2].state = RowState::kOutOfMemory;
  EXPECT_EQ(LargestThatFits(rows)->number, 2);
  EXPECT_EQ(NextAfterLargest(rows, 0)->number, 3);
  EXPECT_EQ(LargestThatFits(rows, 0.05)->number, 1);
  EXPECT_EQ(NextAfterLargest(rows, 0.05)->number, 2);
  rows[2].peak_allocated = 0;  // it died on a GPU: what it wants is not known
  EXPECT_EQ(NextAfterLargest(rows, 0), nullptr);
}

TEST(DigestTest, NeedIsWhatIsKnown) {
  SweepRow row = RowOf(1, {}, kGiB);
  EXPECT_EQ(NeedOf(row), row.peak_process);
  row.peak_process = 0;
  EXPECT_EQ(NeedOf(row), row.peak_reserved);
  EXPECT_EQ(NeedOf(SweepRow()), 0u);
}

TEST(DigestTest, ValuesAscendWhereTheyAreNumbers) {
  const std::vector<SweepRow> rows = {RowOf(1, {{"n", "16"}, {"o", "sgd"}, {"one", "1"}}, 1),
                                      RowOf(2, {{"n", "8"}, {"o", "adam"}, {"one", "1"}}, 1),
                                      RowOf(3, {{"n", "128"}, {"o", "sgd"}, {"one", "1"}}, 1)};
  EXPECT_THAT(ValuesOf(rows, "n"), ElementsAre("8", "16", "128"));
  EXPECT_THAT(ValuesOf(rows, "o"), ElementsAre("sgd", "adam"));
  EXPECT_THAT(AxesOf(rows), ElementsAre("n", "o", "one"));
  EXPECT_THAT(VariedAxes(rows), ElementsAre("n", "o"));
  EXPECT_EQ(ShortConfiguration(rows[0], {"n", "o"}), "16 · sgd");
  EXPECT_EQ(ConfigurationText(rows[0].values), "n=16, o=sgd, one=1");
  EXPECT_EQ(ConfigurationText({}), "the only configuration");
}

TEST(DigestTest, TellsPerSampleGradientsApart) {
  SweepRow row;
  row.categories = {{"gradient", 10}, {"parameter", 20}, {"input", 0}};
  row.parts = {{"per_sample", 7}, {"trainable", 20}};
  EXPECT_THAT(Names(MemoryTypes(row)), ElementsAre("parameter", "per_sample_gradient", "gradient"));
  EXPECT_EQ(MemoryTypes(row)[2].bytes, 3u);
  row.parts["per_sample"] = 99;  // more than all gradients: nothing may become negative
  EXPECT_THAT(Names(MemoryTypes(row)), ElementsAre("parameter", "per_sample_gradient"));
  EXPECT_EQ(MemoryTypes(row)[1].bytes, 10u);
  EXPECT_THAT(MemoryTypes(SweepRow()), IsEmpty());
}

TEST(DigestTest, SumsStagesToOperations) {
  const std::vector<PartBytes> operations = Operations({{"forward", 1},
                                                        {"loss", 2},
                                                        {"backward", 4},
                                                        {"optimizer_step", 8},
                                                        {"zero_grad", 16},
                                                        {"model_load", 32},
                                                        {"anything", 64}});
  EXPECT_THAT(Names(operations), ElementsAre("forward", "backward", "optimizer", "other"));
  EXPECT_EQ(operations[0].bytes, 3u);
  EXPECT_EQ(operations[1].bytes, 4u);
  EXPECT_EQ(operations[2].bytes, 24u);
  EXPECT_EQ(operations[3].bytes, 96u);
  EXPECT_EQ(Operations(SweepRow()).size(), 4u);
}

}  // namespace
}  // namespace gpumem::plan
