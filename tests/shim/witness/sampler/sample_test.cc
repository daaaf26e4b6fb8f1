// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/sampler/sample.h"

#include <gpumem/trace.pb.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "shim/base/buffer.h"

namespace gpumemshim::sampler {
namespace {

namespace pb = gpumem::trace;

pb::Counters Decode(const Sample& sample) {
  Buffer buffer;
  ProtoWriter w(&buffer);
  EncodePacket(sample, &w);
  pb::Trace trace;
  EXPECT_TRUE(trace.ParseFromArray(buffer.data(), static_cast<int>(buffer.size())));
  EXPECT_EQ(trace.packet_size(), 1);
  return trace.packet(0).counters();
}

std::unique_ptr<Sample> FullSample() {
  auto sample = std::make_unique<Sample>();
  sample->time_ns = 1;
  sample->took_ns = 2;
  sample->cause = Cause::kOutOfMemory;
  sample->rss = 3;
  sample->process_cpu_ns = 4;
  sample->system_total = 5;
  sample->system_available = 6;
  std::strcpy(sample->source, "NVML 1");
  std::strcpy(sample->error, "no");
  sample->device_count = 1;
  DeviceSample& device = sample->devices[0];
  device.Reset(2);
  device.own_process = OwnProcess::kByPidInside;
  device.used = 10;
  device.free = 11;
  device.total = 12;
  device.driver_reserved = 0;
  device.own = 14;
  device.pool_reserved = 15;
  device.pool_used = 16;
  device.others_known = true;
  device.other_count = 3;
  device.others_kept = 2;
  device.others[0] = {77, 100, "python"};
  device.others[1] = {78, kUnknown, ""};
  sample->crossing_count = 1;
  sample->crossings[0] = {2, 85, 0, 10, 12, kUnknown};
  return sample;
}

TEST(EncodeTest, EverythingArrives) {
  const auto sample = FullSample();
  const pb::Counters counters = Decode(*sample);
  EXPECT_EQ(counters.time_ns(), 1u);
  EXPECT_EQ(counters.took_ns(), 2u);
  EXPECT_EQ(counters.cause(), pb::OUT_OF_MEMORY);
  EXPECT_EQ(counters.process_rss_bytes(), 3u);
  EXPECT_EQ(counters.process_cpu_ns(), 4u);
  EXPECT_EQ(counters.system_total_bytes(), 5u);
  EXPECT_EQ(counters.system_available_bytes(), 6u);
  EXPECT_EQ(counters.source(), "NVML 1");
  EXPECT_EQ(counters.source_error(), "no");
  ASSERT_EQ(counters.devices_size(), 1);
  const pb::DeviceCounters& read = counters.devices(0);
  EXPECT_EQ(read.device(), 2);
  EXPECT_FALSE(read.has_torch_allocated_bytes());
  EXPECT_EQ(read.used_bytes(), 10u);
  EXPECT_EQ(read.free_bytes(), 11u);
  EXPECT_EQ(read.total_bytes(), 12u);
  EXPECT_TRUE(read.has_driver_reserved_bytes());  // measured as zero is not unknown
  EXPECT_EQ(read.own_bytes(), 14u);
  EXPECT_EQ(read.own_process(), pb::OWN_BY_PID_INSIDE);
  EXPECT_EQ(read.pool_reserved_bytes(), 15u);
  EXPECT_EQ(read.pool_used_bytes(), 16u);
  EXPECT_EQ(read.other_count(), 3u);
  ASSERT_EQ(read.others_size(), 2);
  EXPECT_EQ(read.others(0).name(), "python");
  EXPECT_EQ(read.others(0).used_bytes(), 100u);
  EXPECT_FALSE(read.others(1).has_used_bytes());
  ASSERT_EQ(counters.crossings_size(), 1);
  EXPECT_EQ(counters.crossings(0).percent(), 85u);
  EXPECT_FALSE(counters.crossings(0).has_own_bytes());
}

TEST(EncodeTest, UnknownIsAbsent) {
  auto sample = std::make_unique<Sample>();
  sample->cause = Cause::kPeriodic;
  sample->device_count = 1;
  sample->devices[0].Reset(0);
  const pb::Counters counters = Decode(*sample);
  const pb::DeviceCounters& read = counters.devices(0);
  EXPECT_FALSE(read.has_used_bytes());
  EXPECT_FALSE(read.has_own_bytes());
  EXPECT_FALSE(read.has_other_count());
  EXPECT_FALSE(read.has_pool_reserved_bytes());
  EXPECT_EQ(read.own_process(), pb::OWN_UNKNOWN);
}

TEST(EncodeTest, TheNumbersAreTheSchemas) {
  EXPECT_EQ(static_cast<int>(Cause::kPeriodic), pb::PERIODIC);
  EXPECT_EQ(static_cast<int>(Cause::kGrowth), pb::GROWTH);
  EXPECT_EQ(static_cast<int>(Cause::kFirstEvent), pb::FIRST_EVENT);
  EXPECT_EQ(static_cast<int>(Cause::kOutOfMemory), pb::OUT_OF_MEMORY);
  EXPECT_EQ(static_cast<int>(Cause::kEnd), pb::PROGRAM_END);
  EXPECT_EQ(static_cast<int>(OwnProcess::kByPid), pb::OWN_BY_PID);
  EXPECT_EQ(static_cast<int>(OwnProcess::kByPidInside), pb::OWN_BY_PID_INSIDE);
  EXPECT_EQ(static_cast<int>(OwnProcess::kOnlyOne), pb::OWN_ONLY_ONE);
}

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
