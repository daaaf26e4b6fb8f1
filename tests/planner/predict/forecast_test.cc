// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/forecast.h"

#include <gtest/gtest.h>

#include "example_forecast.h"

namespace gpumem::plan {
namespace {

using testing::kGiB;
using testing::kMiB;

DeviceAnalysis DeviceWith(int number, uint64_t total) {
  DeviceAnalysis device;
  device.device = number;
  device.peak_allocated.bytes = total / 2;
  device.peak_reserved.bytes = total - kMiB;
  device.peak_other.bytes = kMiB;
  device.peak_total.bytes = total;
  return device;
}

TEST(PeaksOfTest, NothingRecordedIsNoDevice) { EXPECT_EQ(PeaksOf({}).device, -1); }

TEST(PeaksOfTest, WithoutABreakdownItIsWhatWasRecorded) {
  Analysis analysis;
  analysis.devices = {DeviceWith(0, kGiB)};
  const RunPeaks peaks = PeaksOf(analysis);
  EXPECT_EQ(peaks.device, 0);
  EXPECT_EQ(peaks.allocated, kGiB / 2);
  EXPECT_EQ(peaks.reserved, kGiB - kMiB);
  EXPECT_EQ(peaks.process, kGiB);
  EXPECT_EQ(peaks.context, 0u);
  EXPECT_EQ(peaks.elsewhere, kMiB);
}

TEST(PeaksOfTest, AddsWhatTheDriverTakes) {
  Analysis analysis;
  analysis.devices = {DeviceWith(0, kGiB)};
  MemoryBreakdown& breakdown = analysis.devices[0].breakdown_at_peak;
  breakdown.any = true;
  breakdown.values.total = kGiB;
  breakdown.values.other = 3 * kMiB;
  breakdown.driver.contexts = 512 * kMiB;
  breakdown.driver.modules = 2 * kMiB;
  RunPeaks peaks = PeaksOf(analysis);
  EXPECT_EQ(peaks.process, kGiB + 514 * kMiB);
  EXPECT_EQ(peaks.context, 514 * kMiB);
  EXPECT_EQ(peaks.elsewhere, 3 * kMiB);
  // The device shows more than all that is known.
  breakdown.process = kGiB + 600 * kMiB;
  peaks = PeaksOf(analysis);
  EXPECT_EQ(peaks.process, kGiB + 600 * kMiB);
  EXPECT_EQ(peaks.context, 600 * kMiB);
  // Less: it was looked at at another time.
  breakdown.process = kGiB / 2;
  EXPECT_EQ(PeaksOf(analysis).process, kGiB + 514 * kMiB);
}

TEST(PeaksOfTest, IsOfTheDeviceThatNeedsMost) {
  Analysis analysis;
  analysis.devices = {DeviceWith(0, kGiB), DeviceWith(3, 3 * kGiB), DeviceWith(4, 2 * kGiB)};
  EXPECT_EQ(PeaksOf(analysis).device, 3);
  EXPECT_EQ(PeaksOf(analysis).process, 3 * kGiB);
  analysis.devices = {DeviceWith(2, 0)};
  EXPECT_EQ(PeaksOf(analysis).device, 2);
}

TEST(ForecastTest, OnlySomeEndsAreTooEarly) {
  for (const RunEnd end : {RunEnd::kTimedOut, RunEnd::kSpins, RunEnd::kFailed}) EXPECT_TRUE(IsCutShort(end));
  for (const RunEnd end : {RunEnd::kStable, RunEnd::kSteps, RunEnd::kEnded}) EXPECT_FALSE(IsCutShort(end));
}

TEST(ForecastTest, WithoutADeviceThereIsNoAnswer) {
  EXPECT_FALSE(Forecast{}.answered());
  EXPECT_FALSE(testing::CapabilityForecast().answered());
}

}  // namespace
}  // namespace gpumem::plan
