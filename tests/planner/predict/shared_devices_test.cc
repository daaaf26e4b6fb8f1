// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <gtest/gtest.h>

#include "example_forecast.h"

namespace gpumem::plan {
namespace {

using testing::kGiB;

PlannedProcess Process(int device, uint64_t begin, uint64_t end, std::vector<std::pair<uint64_t, uint64_t>> uses) {
  PlannedProcess process;
  DeviceHistory history;
  history.peaks.device = device;
  for (const auto& [time_ns, bytes] : uses) history.peaks.process = std::max(history.peaks.process, bytes);
  history.begin_ns = begin;
  history.end_ns = end;
  history.uses = std::move(uses);
  process.peaks = history.peaks;
  process.devices = {std::move(history)};
  return process;
}

TEST(SharedDevicesTest, NothingIsShared) { EXPECT_TRUE(SharedDevices({}).empty()); }

TEST(SharedDevicesTest, IsAddedUpInTime) {
  const std::vector<SharedDevice> shared =
      SharedDevices({Process(0, 0, 100, {{0, kGiB}, {10, 5 * kGiB}, {20, kGiB}}),
                     Process(0, 5, 100, {{5, 2 * kGiB}, {30, 4 * kGiB}, {40, kGiB}})});
  ASSERT_EQ(shared.size(), 1u);
  EXPECT_EQ(shared[0].processes, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(shared[0].in_time, 7 * kGiB);
  EXPECT_EQ(shared[0].at_once, 9 * kGiB);
}

TEST(SharedDevicesTest, OneAfterAnotherNeverMeet) {
  const std::vector<SharedDevice> shared =
      SharedDevices({Process(0, 0, 10, {{0, 5 * kGiB}}), Process(0, 11, 20, {{11, 6 * kGiB}})});
  EXPECT_EQ(shared[0].in_time, 6 * kGiB);
  EXPECT_EQ(shared[0].at_once, 6 * kGiB);
  EXPECT_EQ(shared[0].processes.front(), 1u);  // the largest first
}

// A process that does nothing any more holds what it has up to its end.
TEST(SharedDevicesTest, WhatIsHeldCountsUpToTheEnd) {
  const std::vector<SharedDevice> shared =
      SharedDevices({Process(0, 0, 1000, {{0, 5 * kGiB}}), Process(0, 900, 950, {{900, 6 * kGiB}})});
  EXPECT_EQ(shared[0].in_time, 11 * kGiB);
}

TEST(SharedDevicesTest, DevicesAreApartAndTheFullestIsFirst) {
  const std::vector<SharedDevice> shared =
      SharedDevices({Process(0, 0, 10, {{0, kGiB}}), Process(3, 0, 10, {{0, 6 * kGiB}})});
  ASSERT_EQ(shared.size(), 2u);
  EXPECT_EQ(shared[0].device, 3);
  EXPECT_EQ(shared[1].device, 0);
}

}  // namespace
}  // namespace gpumem::plan
