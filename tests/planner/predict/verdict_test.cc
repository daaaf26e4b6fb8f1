// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/verdict.h"

#include <gtest/gtest.h>

#include <set>

#include "example_forecast.h"

namespace gpumem::plan {
namespace {

using testing::kGiB;
using testing::kMiB;

Verdict VerdictOf(const Forecast& forecast) { return Assess(forecast).verdict; }

TEST(VerdictTest, FitsUpToTheLastByte) {
  EXPECT_EQ(VerdictOf(testing::ExampleForecast(10 * kGiB)), Verdict::kFits);
  EXPECT_EQ(VerdictOf(testing::ExampleForecast(10 * kGiB + 1)), Verdict::kDoesNotFit);
  EXPECT_EQ(VerdictOf(testing::TightForecast()), Verdict::kFits);
  EXPECT_EQ(VerdictOf(testing::TooLargeForecast()), Verdict::kDoesNotFit);
}

TEST(VerdictTest, WithoutADeviceThereIsNone) {
  EXPECT_EQ(VerdictOf(Forecast{}), Verdict::kUnknown);
  EXPECT_EQ(VerdictOf(testing::CapabilityForecast()), Verdict::kUnknown);
}

TEST(VerdictTest, WhatWasCutShortIsUnknownUnlessItIsTooLargeAlready) {
  for (const RunEnd end : {RunEnd::kTimedOut, RunEnd::kSpins, RunEnd::kFailed}) {
    Forecast forecast = testing::OpenForecast(end);
    EXPECT_EQ(VerdictOf(forecast), Verdict::kUnknown);
    forecast.processes[0].peaks.process = 11 * kGiB;
    EXPECT_EQ(VerdictOf(forecast), Verdict::kDoesNotFit);
  }
}

TEST(VerdictTest, AnEarlyEndIsNoPromise) {
  Forecast forecast = testing::ExampleForecast();
  forecast.end = RunEnd::kStable;
  EXPECT_EQ(VerdictOf(forecast), Verdict::kFitsUnless);
  EXPECT_FALSE(Assess(forecast).bounded());
  forecast.steps_given = true;  // who says how many steps has no later ones
  EXPECT_EQ(VerdictOf(forecast), Verdict::kFits);
}

// Each other run moves one end, and only that one.
TEST(VerdictTest, RunsThatWereOtherwiseMakeARange) {
  const std::optional<RunPeaks> Forecast::*const runs[] = {
      &Forecast::with_zero,         &Forecast::with_late_events,   &Forecast::with_bounds,
      &Forecast::with_other_values, &Forecast::with_worst_routing, &Forecast::with_steps_left_out};
  for (const std::optional<RunPeaks> Forecast::*run : runs) {
    Forecast forecast = testing::ExampleForecast(8 * kGiB);
    const auto other = const_cast<std::optional<RunPeaks> Forecast::*>(run);
    forecast.*other = testing::PeaksOfSize(9 * kGiB);
    Assessment assessment = Assess(forecast);
    EXPECT_EQ(assessment.low, 8 * kGiB);
    EXPECT_EQ(assessment.high, 9 * kGiB);
    EXPECT_EQ(assessment.verdict, Verdict::kFits);
    forecast.*other = testing::PeaksOfSize(11 * kGiB);
    EXPECT_EQ(VerdictOf(forecast), Verdict::kFitsUnless);
    forecast.*other = testing::PeaksOfSize(6 * kGiB);
    assessment = Assess(forecast);
    EXPECT_EQ(assessment.low, 6 * kGiB);
    EXPECT_EQ(assessment.high, 8 * kGiB);
    forecast.*other = testing::PeaksOfSize(8 * kGiB);
    EXPECT_TRUE(Assess(forecast).doubts.empty());  // what changes nothing is no doubt
  }
}

// Within 3 % of the device nothing is said; far from it, what would have to happen is.
TEST(VerdictTest, OnlyNearTheDevicesSizeIsItTooClose) {
  Forecast forecast = testing::ExampleForecast(9 * kGiB);
  forecast.with_bounds = testing::PeaksOfSize(11 * kGiB);
  EXPECT_EQ(VerdictOf(forecast), Verdict::kFitsUnless);
  forecast = testing::ExampleForecast(9 * kGiB + 900 * kMiB);
  forecast.with_bounds = testing::PeaksOfSize(11 * kGiB);
  EXPECT_EQ(VerdictOf(forecast), Verdict::kTooClose);
}

// Nobody tried whether PyTorch gets through with what there is.
TEST(VerdictTest, WithoutTheTimeToTryNothingDoesNotFit) {
  Forecast forecast = testing::ExampleForecast(11 * kGiB);
  forecast.tight_is_open = true;
  forecast.processes[0].peaks.allocated = 8 * kGiB;
  EXPECT_EQ(VerdictOf(forecast), Verdict::kTooClose);
  forecast.processes[0].peaks.allocated = 10 * kGiB;
  EXPECT_EQ(VerdictOf(forecast), Verdict::kDoesNotFit);
}

TEST(VerdictTest, SeveralRunsWithOtherValuesAreOneDoubt) {
  Forecast forecast = testing::ExampleForecast(8 * kGiB);
  forecast.with_other_values = testing::PeaksOfSize(9 * kGiB);
  forecast.least_with_other_values = testing::PeaksOfSize(5 * kGiB);
  const Assessment assessment = Assess(forecast);
  EXPECT_EQ(assessment.doubts.size(), 1u);
  EXPECT_EQ(assessment.low, 5 * kGiB);
  EXPECT_EQ(assessment.high, 9 * kGiB);
}

TEST(VerdictTest, WhereAValueMayBeAnotherNothingIsTooLargeForSure) {
  Forecast forecast = testing::ExampleForecast(11 * kGiB);
  EXPECT_EQ(VerdictOf(forecast), Verdict::kDoesNotFit);
  forecast.other_values_failed = "train.py:12 main";
  EXPECT_EQ(VerdictOf(forecast), Verdict::kUnknown);
  EXPECT_FALSE(Assess(forecast).bounded());
}

TEST(VerdictTest, DoubtsAddUp) {
  Forecast forecast = testing::ExampleForecast(8 * kGiB);
  forecast.with_bounds = testing::PeaksOfSize(9 * kGiB);
  forecast.with_late_events = testing::PeaksOfSize(9 * kGiB + 512 * kMiB);
  const Assessment assessment = Assess(forecast);
  EXPECT_EQ(assessment.high, 10 * kGiB + 512 * kMiB);
  EXPECT_EQ(assessment.verdict, Verdict::kFitsUnless);
  EXPECT_EQ(assessment.doubts.front().kind, Doubt::Kind::kStreams);  // the largest first
}

TEST(VerdictTest, AGuessedContextIsARange) {
  Forecast forecast = testing::ExampleForecast(9 * kGiB + 600 * kMiB);
  forecast.processes[0].reported.context = {512 * kMiB, "nothing"};
  EXPECT_EQ(VerdictOf(forecast), Verdict::kFitsUnless);
  forecast.processes[0].reported.context.known = "similar";
  EXPECT_EQ(VerdictOf(forecast), Verdict::kFits);
}

TEST(VerdictTest, WorkspacesWithoutABoundHaveNoUpperEnd) {
  Forecast forecast = testing::ExampleForecast();
  forecast.processes[0].reported.workspaces = testing::SomeWorkspaces();
  EXPECT_EQ(VerdictOf(forecast), Verdict::kFitsUnless);
}

TEST(VerdictTest, ValuesThatNoRunCouldChangeHaveNoUpperEnd) {
  Forecast forecast = testing::ExampleForecast();
  forecast.other_values_failed = "train.py:12";
  EXPECT_EQ(VerdictOf(forecast), Verdict::kFitsUnless);
  EXPECT_EQ(Assess(forecast).doubts.front().unless, "a value is another one at train.py:12");
  EXPECT_EQ(RangeText(Assess(forecast)), "at least 8 GiB with the values tried, no upper bound");
  forecast.other_values_failed = "src/train.py:12 main, train.py:40 main";
  EXPECT_EQ(Assess(forecast).doubts.front().settle, "--pin 'train.py:12=VALUE'");
}

TEST(VerdictTest, LaterStepsLeaveTheUpperBoundOfWhatWasRun) {
  Forecast forecast = testing::ExampleForecast();
  forecast.end = RunEnd::kStable;
  EXPECT_TRUE(Assess(forecast).has_upper());
  EXPECT_EQ(RangeText(Assess(forecast)), "8 GiB");
}

TEST(VerdictTest, StepsThatDifferHaveNoUpperBound) {
  Forecast forecast = testing::ExampleForecast();
  forecast.end = RunEnd::kStable;
  forecast.processes[0].reported.steps_differ = true;
  EXPECT_FALSE(Assess(forecast).has_upper());
  EXPECT_EQ(VerdictOf(forecast), Verdict::kFitsUnless);
  forecast.steps_given = true;
  EXPECT_EQ(VerdictOf(forecast), Verdict::kFits);
}

// More room need not mean more reserved.
TEST(VerdictTest, DrawnAndLargestWorkspacesMayAllBeOnOneSide) {
  Forecast forecast = testing::ExampleForecast(8 * kGiB);
  forecast.with_bounds = testing::PeaksOfSize(7 * kGiB);
  forecast.with_drawn_workspaces = {testing::PeaksOfSize(6 * kGiB)};
  EXPECT_EQ(Assess(forecast).low, 6 * kGiB);
  EXPECT_EQ(Assess(forecast).high, 8 * kGiB);
  forecast.with_drawn_workspaces = {testing::PeaksOfSize(9 * kGiB)};
  EXPECT_EQ(Assess(forecast).low, 7 * kGiB);
  EXPECT_EQ(Assess(forecast).high, 9 * kGiB);
}

// A search takes what is free, and fails for nobody.
TEST(VerdictTest, ASearchOfAlgorithmsMayTakeAllThatIsFree) {
  Forecast forecast = testing::ExampleForecast(8 * kGiB);
  forecast.processes[0].reported.benchmark = true;
  EXPECT_EQ(Assess(forecast).high, 8 * kGiB);  // no convolution
  WorkspaceUse use;
  use.library = "cuDNN";
  forecast.processes[0].reported.workspaces = {use};
  EXPECT_EQ(Assess(forecast).high, forecast.capacity());
  EXPECT_EQ(Assess(forecast).verdict, Verdict::kFits);
}

TEST(VerdictTest, DrawsThatDifferMayDifferAsMuchAgain) {
  Forecast forecast = testing::ExampleForecast(8 * kGiB);
  forecast.with_other_draws = {testing::PeaksOfSize(8 * kGiB), testing::PeaksOfSize(8 * kGiB)};
  EXPECT_TRUE(Assess(forecast).doubts.empty());
  forecast.with_other_draws = {testing::PeaksOfSize(8 * kGiB + 128 * kMiB),
                               testing::PeaksOfSize(8 * kGiB - 256 * kMiB)};
  const Assessment assessment = Assess(forecast);
  EXPECT_EQ(assessment.low, 8 * kGiB - 640 * kMiB);
  EXPECT_EQ(assessment.high, 8 * kGiB + 512 * kMiB);
  ASSERT_EQ(assessment.doubts.size(), 1u);
  EXPECT_EQ(assessment.doubts[0].kind, Doubt::Kind::kData);
}

TEST(VerdictTest, AFurtherRunThatFailsLeavesItsEndOpen) {
  Forecast forecast = testing::ExampleForecast();
  forecast.failed_runs.push_back(
      {FailedRun::Of::kWorkspaces, "with workspaces as large as they can be", "was ended when its time was up"});
  const Assessment assessment = Assess(forecast);
  EXPECT_EQ(assessment.verdict, Verdict::kFitsUnless);
  EXPECT_FALSE(assessment.has_upper());
  ASSERT_EQ(assessment.doubts.size(), 1u);
  EXPECT_EQ(assessment.doubts[0].kind, Doubt::Kind::kWorkspaces);
  EXPECT_EQ(assessment.doubts[0].what,
            "the run with workspaces as large as they can be was ended when its time was up, so that end is open");
}

TEST(VerdictTest, WithoutComputedValuesWhateverWasReadIsOpen) {
  Forecast forecast = testing::ExampleForecast();
  forecast.processes[0].reported.values_failed = "OSError: libsimcuda_preload.so";
  EXPECT_EQ(VerdictOf(forecast), Verdict::kFits);  // nothing was read, so nothing could be decided
  forecast.reads = {{HostReadKind::kCopy, "aten::nonzero", "train.py:7 main", 1, 8}};
  forecast.other_values_failed = "train.py:9 main";
  const Assessment assessment = Assess(forecast);
  EXPECT_EQ(assessment.verdict, Verdict::kFitsUnless);
  ASSERT_EQ(assessment.doubts.size(), 1u);
  EXPECT_EQ(assessment.doubts[0].what,
            "values that decide could not be computed (OSError: libsimcuda_preload.so), and count as 0; they were read "
            "at train.py:7 main");
}

TEST(VerdictTest, ManagedMemoryMayLieElsewhere) {
  Forecast forecast = testing::ExampleForecast(8 * kGiB);
  forecast.processes[0].managed = 3 * kGiB;
  forecast.processes[0].peaks.together = 11 * kGiB;
  forecast.shared = {{0, {0}, 8 * kGiB, 8 * kGiB}};
  const Assessment assessment = Assess(forecast);
  EXPECT_EQ(assessment.low, 8 * kGiB);
  EXPECT_EQ(assessment.high, 11 * kGiB);
  EXPECT_EQ(assessment.verdict, Verdict::kTooClose);
}

TEST(VerdictTest, WhatRunsOnlyWithNothingLeftIsTooClose) {
  Forecast forecast = testing::TightForecast();
  forecast.tight_with_room = false;
  EXPECT_EQ(VerdictOf(forecast), Verdict::kTooClose);
}

// The upper end is more than there is, but with that much taken the program ran: PyTorch gave cached memory back.
TEST(VerdictTest, WhatRunsWithAllThatIsOpenTakenFits) {
  Forecast forecast = testing::ExampleForecast(9 * kGiB);
  forecast.processes[0].reported.context = {2 * kGiB, "nothing"};
  ASSERT_GT(Assess(forecast).high, forecast.capacity());
  EXPECT_EQ(VerdictOf(forecast), Verdict::kFitsUnless);
  forecast.fits_when_tight = forecast.tight_with_room = true;
  EXPECT_EQ(VerdictOf(forecast), Verdict::kFits);
}

TEST(VerdictTest, NoBoundIsBelowThePrediction) {
  for (const uint64_t need : {1, 5, 8, 9, 12}) {
    Forecast forecast = testing::ExampleForecast(need * kGiB + kGiB);
    forecast.processes[0].reported.context.known = "nothing";
    forecast.with_zero = testing::PeaksOfSize(2 * kGiB);
    forecast.with_bounds = testing::PeaksOfSize(5 * kGiB);
    const Assessment assessment = Assess(forecast);
    EXPECT_LE(assessment.low, assessment.likely);
    EXPECT_LE(assessment.likely, assessment.high);
  }
}

TEST(VerdictTest, NamesAreDifferent) {
  std::set<absl::string_view> names;
  for (int i = 0; i <= static_cast<int>(Verdict::kUnknown); ++i) names.insert(VerdictName(static_cast<Verdict>(i)));
  EXPECT_EQ(names.size(), 5u);
  names.clear();
  for (int i = 0; i <= static_cast<int>(Doubt::Kind::kManaged); ++i)
    names.insert(DoubtName(static_cast<Doubt::Kind>(i)));
  EXPECT_EQ(names.size(), 8u);
}

}  // namespace
}  // namespace gpumem::plan
