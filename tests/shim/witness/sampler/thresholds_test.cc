// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/sampler/thresholds.h"

#include <gtest/gtest.h>

#include <memory>

namespace gpumemshim::sampler {
namespace {

std::unique_ptr<Sample> SampleOf(uint64_t used, uint64_t total, int16_t device = 0) {
  auto sample = std::make_unique<Sample>();
  sample->device_count = 1;
  sample->devices[0].Reset(device);
  sample->devices[0].used = used;
  sample->devices[0].total = total;
  return sample;
}

TEST(ThresholdsTest, ParsesPercentAndBytes) {
  Thresholds thresholds;
  EXPECT_EQ(thresholds.Parse("85%, 70G,512MiB,1048576"), 0u);
  ASSERT_EQ(thresholds.count(), 4u);
  EXPECT_EQ(thresholds.at(0).percent, 85u);
  EXPECT_EQ(thresholds.at(1).bytes, uint64_t{70} << 30);
  EXPECT_EQ(thresholds.at(2).bytes, uint64_t{512} << 20);
  EXPECT_EQ(thresholds.at(3).bytes, 1048576u);
}

TEST(ThresholdsTest, LeavesOutWhatMakesNoSense) {
  Thresholds thresholds;
  EXPECT_EQ(thresholds.Parse("101%,abc,0,90%x,99999999999999999999G,-5,%"), 7u);
  EXPECT_EQ(thresholds.count(), 0u);
  EXPECT_EQ(thresholds.Parse("1,2,3,4,5,6,7,8,9"), 1u);
  EXPECT_EQ(thresholds.count(), kMaxThresholds);
  EXPECT_EQ(thresholds.Parse(""), 0u);
  EXPECT_EQ(thresholds.count(), 0u);
}

TEST(ThresholdsTest, ReportsEachOnceADevice) {
  Thresholds thresholds;
  thresholds.Parse("50%,900");
  auto low = SampleOf(499, 1000);
  thresholds.Check(low.get());
  EXPECT_EQ(low->crossing_count, 0u);
  auto half = SampleOf(500, 1000);
  thresholds.Check(half.get());
  ASSERT_EQ(half->crossing_count, 1u);
  EXPECT_EQ(half->crossings[0].percent, 50u);
  EXPECT_EQ(half->crossings[0].used, 500u);
  auto full = SampleOf(950, 1000);
  thresholds.Check(full.get());
  ASSERT_EQ(full->crossing_count, 1u);
  EXPECT_EQ(full->crossings[0].bytes, 900u);
  auto again = SampleOf(999, 1000);
  thresholds.Check(again.get());
  EXPECT_EQ(again->crossing_count, 0u);
  auto second_device = SampleOf(950, 1000, 1);
  thresholds.Check(second_device.get());
  EXPECT_EQ(second_device->crossing_count, 2u);
}

TEST(ThresholdsTest, PercentNeedsATotal) {
  Thresholds thresholds;
  thresholds.Parse("50%,100");
  auto sample = SampleOf(500, kUnknown);
  thresholds.Check(sample.get());
  ASSERT_EQ(sample->crossing_count, 1u);
  EXPECT_EQ(sample->crossings[0].bytes, 100u);
  EXPECT_EQ(sample->crossings[0].total, 0u);
}

}  // namespace
}  // namespace gpumemshim::sampler
