// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/scaling.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "example_rows.h"

namespace gpumem::plan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kGiB;
using testing::kMiB;
using ::testing::Not;
using testing::RowOf;

std::string English(const AxisScaling& scaling) { return ScalingSentence(scaling, SweepLanguage::kEnglish); }

// Rows of one axis n, as `law` says.
std::vector<SweepRow> RowsBy(const std::vector<int>& values, const std::function<uint64_t(uint64_t)>& law) {
  std::vector<SweepRow> rows;
  for (const int n : values)
    rows.push_back(RowOf(static_cast<int>(rows.size()) + 1, {{"n", absl::StrCat(n)}}, law(static_cast<uint64_t>(n))));
  return rows;
}

AxisScaling ScalingBy(const std::vector<int>& values, const std::function<uint64_t(uint64_t)>& law) {
  return FitScaling(RowsBy(values, law)).at(0);
}

TEST(FitCurveTest, FindsTheCoefficients) {
  const CurveFit line = FitCurve({1, 2, 4, 8}, {300, 500, 900, 1700});
  EXPECT_EQ(line.fit.model, ScalingModel::kLinear);
  EXPECT_NEAR(line.fit.constant, 100, 1e-6);
  EXPECT_NEAR(line.fit.linear, 200, 1e-6);
  EXPECT_NEAR(line.fit.r_squared, 1, 1e-12);
  EXPECT_FALSE(line.weak);
  const CurveFit square = FitCurve({1, 2, 3, 4, 5}, {105, 120, 145, 180, 225});
  EXPECT_EQ(square.fit.model, ScalingModel::kQuadratic);
  EXPECT_NEAR(square.fit.constant, 100, 1e-6);
  EXPECT_NEAR(square.fit.linear, 0, 1e-6);
  EXPECT_NEAR(square.fit.quadratic, 5, 1e-6);
  EXPECT_LT(square.fit.largest_relative_error, 1e-9);
}

TEST(FitCurveTest, NothingToFit) {
  EXPECT_EQ(FitCurve({}, {}).fit.model, ScalingModel::kNone);
  EXPECT_EQ(FitCurve({1}, {5}).fit.model, ScalingModel::kNone);
  EXPECT_EQ(FitCurve({1, 2}, {5}).fit.model, ScalingModel::kNone);
}

TEST(ScalingTest, QuadraticLinearAndSmall) {
  const auto square = ScalingBy({256, 512, 1024, 2048}, [](uint64_t n) { return kGiB + n * kMiB + n * n * 4096; });
  EXPECT_EQ(square.allocated.model, ScalingModel::kQuadratic);
  EXPECT_NEAR(square.allocated.quadratic, 4096, 1);
  EXPECT_THAT(English(square), HasSubstr("memory grows quadratically: 1.50 GiB at 256, 19 GiB at 2048; 1 GiB + 1 MiB n "
                                         "+ 4 KiB n^2; off by at most"));
  const auto line = ScalingBy({1, 2, 4, 8}, [](uint64_t n) { return kGiB + n * 512 * kMiB + n % 3 * kMiB; });
  EXPECT_EQ(line.allocated.model, ScalingModel::kLinear);
  EXPECT_THAT(English(line), HasSubstr("memory grows linearly, 512"));
  const auto rank = ScalingBy({4, 8, 16, 32}, [](uint64_t n) { return 40 * kGiB + n * 20 * kMiB; });
  EXPECT_TRUE(rank.small);
  EXPECT_THAT(English(rank), HasSubstr("small effect on memory (+1.4 %)"));
  const auto none = ScalingBy({1, 2, 3}, [](uint64_t) { return kGiB; });
  EXPECT_EQ(none.allocated.model, ScalingModel::kConstant);
  EXPECT_TRUE(none.small);
}

TEST(ScalingTest, TheModelOfReservedMemoryIsItsOwn) {
  const auto scaling = ScalingBy({1, 2, 4, 8}, [](uint64_t n) { return n * kGiB; });
  EXPECT_NEAR(scaling.reserved.linear, 1.1 * kGiB, 2);
  EXPECT_EQ(scaling.reserved_bytes.size(), 4u);
}

TEST(ScalingTest, FewValuesSayLess) {
  const auto law = [](uint64_t n) { return kGiB + n * n * kMiB; };
  const auto two = ScalingBy({10, 20}, law);
  EXPECT_EQ(two.allocated.model, ScalingModel::kLinear);
  EXPECT_TRUE(two.weak);
  EXPECT_THAT(English(two),
              HasSubstr("memory grows by 30 MiB per unit: 1.10 GiB at 10, 1.39 GiB at 20; two values cannot"));
  const auto three = ScalingBy({10, 20, 40}, law);
  EXPECT_EQ(three.allocated.model, ScalingModel::kQuadratic);
  EXPECT_TRUE(three.weak);
  EXPECT_THAT(English(three), HasSubstr("three values, so weakly supported"));
  const auto four = ScalingBy({10, 20, 40, 80}, law);
  EXPECT_EQ(four.allocated.model, ScalingModel::kQuadratic);
  EXPECT_FALSE(four.weak);
  EXPECT_THAT(English(four), Not(HasSubstr("weakly")));
}

TEST(ScalingTest, NoSquareWhereThereIsNone) {
  // Falls, then grows: a parabola goes through, but memory does not grow as a square.
  const auto bowl = ScalingBy({1, 2, 3, 4, 5}, [](uint64_t n) { return kGiB + (n < 3 ? 3 - n : n - 3) * kGiB; });
  EXPECT_EQ(bowl.allocated.model, ScalingModel::kOther);
  EXPECT_THAT(English(bowl), HasSubstr("not by a simple law"));
  const auto root =
      ScalingBy({1, 16, 64, 256, 1024}, [](uint64_t n) { return static_cast<uint64_t>(std::sqrt(n) * double{kGiB}); });
  EXPECT_NE(root.allocated.model, ScalingModel::kQuadratic);
  // Flat until the activations outweigh the optimizer's step.
  const auto knee = ScalingBy({1, 2, 4, 8, 16}, [](uint64_t n) { return std::max<uint64_t>(8 * kGiB, n * kGiB); });
  EXPECT_NE(knee.allocated.model, ScalingModel::kQuadratic);
  const auto falls = ScalingBy({1, 2, 4}, [](uint64_t n) { return 9 * kGiB - n * kGiB; });
  EXPECT_THAT(English(falls), HasSubstr("memory falls linearly, 1 GiB per unit"));
}

TEST(ScalingTest, ComparesOnlyRowsThatDifferInOneAxis) {
  const std::vector<AxisScaling> scaling = FitScaling(testing::GptRows(200 * kGiB));
  ASSERT_EQ(scaling.size(), 2u);
  EXPECT_EQ(scaling[0].axis, "seq_len");
  EXPECT_EQ(scaling[0].groups, 4);
  EXPECT_EQ(scaling[0].agreeing, 4);
  EXPECT_EQ(scaling[0].allocated.model, ScalingModel::kQuadratic);
  EXPECT_EQ(scaling[0].fixed, (Configuration{{"batch_size", "8"}}));
  EXPECT_EQ(scaling[1].allocated.model, ScalingModel::kLinear);
  EXPECT_EQ(scaling[1].values, (std::vector<double>{1, 2, 4, 8}));
}

TEST(ScalingTest, SaysWhyThereIsNothingToCompare) {
  std::vector<SweepRow> rows = {RowOf(1, {{"a", "1"}, {"b", "10"}, {"c", "adam"}, {"d", "5"}}, kGiB),
                                RowOf(2, {{"a", "2"}, {"b", "20"}, {"c", "sgd"}, {"d", "5"}}, 2 * kGiB)};
  const std::vector<AxisScaling> scaling = FitScaling(rows);
  EXPECT_EQ(scaling[0].basis, ScalingBasis::kNeverAlone);
  EXPECT_EQ(scaling[2].basis, ScalingBasis::kNotNumeric);
  EXPECT_EQ(scaling[3].basis, ScalingBasis::kOneValue);
  EXPECT_THAT(English(scaling[0]), HasSubstr("never varied alone"));
  std::vector<SweepRow> failed = RowsBy({1, 2, 3}, [](uint64_t) { return 0; });
  failed[1].state = RowState::kFailed;
  EXPECT_EQ(FitScaling(failed)[0].basis, ScalingBasis::kPeaksUnknown);
  EXPECT_TRUE(FitScaling({}).empty());
  EXPECT_TRUE(FitScaling({SweepRow()}).empty());
}

TEST(ScalingTest, FailedRowsDoNotCount) {
  std::vector<SweepRow> rows = RowsBy({1, 2, 4, 8}, [](uint64_t n) { return n * kGiB; });
  rows[2].peak_allocated = 77 * kGiB;
  rows[2].state = RowState::kTimedOut;
  rows[3].state = RowState::kOutOfMemory;  // what it wants is known
  const AxisScaling scaling = FitScaling(rows)[0];
  EXPECT_EQ(scaling.values, (std::vector<double>{1, 2, 8}));
  EXPECT_EQ(scaling.allocated.model, ScalingModel::kLinear);
}

TEST(ScalingTest, NothingIsMinusZeroBytes) {
  AxisScaling scaling = ScalingBy({256, 512, 1024, 2048}, [](uint64_t n) { return kGiB + n * n * 4096; });
  scaling.allocated.linear = -0.3;
  EXPECT_THAT(English(scaling), AllOf(Not(HasSubstr("0 B")), HasSubstr("1 GiB + 4 KiB n^2")));
}

TEST(ScalingTest, SpeaksChinese) {
  const auto square = ScalingBy({256, 512, 1024, 2048}, [](uint64_t n) { return kGiB + n * n * 4096; });
  EXPECT_THAT(ScalingSentence(square, SweepLanguage::kChinese), HasSubstr("显存随之呈二次增长：256 时 1.25 GiB"));
  const auto line = ScalingBy({1, 2, 4, 8}, [](uint64_t n) { return n * kGiB; });
  EXPECT_THAT(ScalingSentence(line, SweepLanguage::kChinese), HasSubstr("显存随之呈线性增长，每单位 1 GiB"));
  const auto rank = ScalingBy({4, 8, 16, 32}, [](uint64_t n) { return 40 * kGiB + n * kMiB; });
  EXPECT_THAT(ScalingSentence(rank, SweepLanguage::kChinese), HasSubstr("对显存影响较小"));
}

TEST(ScalingTest, HugeAndOddValuesGiveNumbers) {
  for (const uint64_t most : {uint64_t{1}, ~uint64_t{0}}) {
    const auto scaling = ScalingBy({0, 1, 2, 1'000'000'000}, [most](uint64_t n) { return n == 0 ? 1 : most; });
    EXPECT_TRUE(std::isfinite(scaling.allocated.linear));
    EXPECT_TRUE(std::isfinite(scaling.allocated.r_squared));
    EXPECT_THAT(English(scaling), Not(HasSubstr("nan")));
  }
}

}  // namespace
}  // namespace gpumem::plan
