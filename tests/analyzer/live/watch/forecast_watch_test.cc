// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/watch/forecast_watch.h"

#include <gtest/gtest.h>

namespace gpumem {
namespace {

Outlook Of(ForecastKind kind, RiskLevel risk) {
  Outlook outlook;
  outlook.forecast.kind = kind;
  outlook.risk = risk;
  return outlook;
}

const Outlook kMedium = Of(ForecastKind::kReaches, RiskLevel::kMedium);
const Outlook kHigh = Of(ForecastKind::kReaches, RiskLevel::kHigh);
const Outlook kSteady = Of(ForecastKind::kSteady, RiskLevel::kLow);

TEST(Alarm, SaysTheSameAgainOnlyAfterThePause) {
  Alarm alarm({RiskLevel::kMedium, 100});
  EXPECT_FALSE(alarm.Sees(kSteady, 0));
  EXPECT_TRUE(alarm.Sees(kMedium, 1));
  EXPECT_TRUE(alarm.is_first());
  EXPECT_FALSE(alarm.Sees(kMedium, 100));
  EXPECT_TRUE(alarm.Sees(kMedium, 101));
  EXPECT_FALSE(alarm.is_first());
  EXPECT_EQ(alarm.warnings(), 2u);
}

TEST(Alarm, SaysAtOnceThatTheRiskIsHigherThanEver) {
  Alarm alarm({RiskLevel::kMedium, 100});
  EXPECT_TRUE(alarm.Sees(kMedium, 1));
  EXPECT_TRUE(alarm.Sees(kHigh, 2));
  EXPECT_FALSE(alarm.Sees(kMedium, 3));
  EXPECT_FALSE(alarm.Sees(kHigh, 4));
}

TEST(Alarm, IsNotMovedByAForecastThatComesAndGoes) {
  Alarm alarm({RiskLevel::kMedium, 1000});
  uint64_t given = 0;
  for (uint64_t now = 1; now <= 900; ++now) given += alarm.Sees(now % 2 == 0 ? kHigh : kSteady, now) ? 1 : 0;
  EXPECT_EQ(given, 1u);
}

TEST(Alarm, LeavesOutWhatIsBelowTheLeastRiskOrFar) {
  Alarm alarm({RiskLevel::kHigh, 100});
  EXPECT_FALSE(alarm.Sees(kMedium, 1));
  EXPECT_FALSE(alarm.Sees(Of(ForecastKind::kFar, RiskLevel::kHigh), 2));
  EXPECT_TRUE(alarm.Sees(kHigh, 3));
}

}  // namespace
}  // namespace gpumem
