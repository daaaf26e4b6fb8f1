// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "render/instants.h"

#include <gtest/gtest.h>

#include "answers/report/fixture.h"

namespace gpumem {
namespace {

using testing::Example;

TEST(FormatTimeApart, HasAsManyDigitsAsAreNeeded) {
  EXPECT_EQ(FormatTimeApart(809'123'456, {}), "809 ms");
  EXPECT_EQ(FormatTimeApart(809'123'456, {809'123'456, 811'000'000}), "809 ms");
  EXPECT_EQ(FormatTimeApart(809'123'456, {809'311'000}), "809.1 ms");
  EXPECT_EQ(FormatTimeApart(809'123'456, {809'123'000}), "809.1235 ms");
  EXPECT_EQ(FormatTimeApart(809'123'456, {809'123'455}), "809.123456 ms");
  EXPECT_EQ(FormatTimeApart(12'345'600'000, {12'345'700'000}), "12.3456 s");
  EXPECT_EQ(FormatTimeApart(7'200'000'000'001, {7'200'000'000'000}), "7200.000000001 s");
}

TEST(AtPeak, TellsThePeaksOfOneTraceApart) {
  Example example = testing::TrainingExample();
  DeviceAnalysis& device = example.analysis.devices[0];
  device.peak_total.time_ns = device.peak_allocated.time_ns + 20'000;
  const ReportInput input = example.input();
  EXPECT_NE(AtPeak(device.peak_total.time_ns, input), AtPeak(device.peak_allocated.time_ns, input));
}

}  // namespace
}  // namespace gpumem
