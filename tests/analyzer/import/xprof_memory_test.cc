// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/xprof_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "imported.h"

namespace gpumem {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Sample(uint64_t time_ps, uint64_t heap) {
  return absl::StrCat(R"({"timeOffsetPs":")", time_ps,
                      R"(","aggregationStats":{"stackReservedBytes":"0","heapAllocatedBytes":")", heap,
                      R"(","freeMemoryBytes":"900","fragmentation":0.5,"peakBytesInUse":"9000"}})");
}

std::string Activity(const std::string& operation, uint64_t bytes) {
  return absl::StrCat(R"({"memoryActivity":"ALLOCATION","allocationBytes":")", bytes,
                      R"(","address":"77","tfOpName":")", operation, R"(","regionType":"temp"})");
}

// 1000 bytes at the peak: two of 300 by a product, 100 by a sum, 200 of other steps; 100 are in no list.
std::string Allocator(const std::string& more = "") {
  return absl::StrCat(
      R"({"memoryProfileSnapshots":[{"timeOffsetPs":"5","activityMetadata":)", Activity("MatMul", 300),
      R"(},{"timeOffsetPs":"6","activityMetadata":)", Activity("Sum", 100),
      R"(}],"profileSummary":{"peakBytesUsageLifetime":"9000","peakStats":{"heapAllocatedBytes":"1000"},)",
      R"("peakStatsTimePs":"7000000","memoryCapacity":"1900"},"activeAllocations":[)",
      R"({"snapshotIndex":"0","specialIndex":"-1","numOccurrences":"2"},{"snapshotIndex":"1","specialIndex":"-1",)",
      R"("numOccurrences":"1"},{"snapshotIndex":"-1","specialIndex":"0","numOccurrences":"1"}],"specialAllocations":[)",
      R"({"allocationBytes":"200","tfOpName":"unused preallocated device memory","regionType":"persist/dynamic"}],)",
      R"("sampledTimelineSnapshots":[)", Sample(1000000, 500), ",", Sample(7000000, 1000), ",", Sample(9000000, 700),
      "]", more, "}");
}

std::string XprofFile(const std::vector<std::string>& allocators) {
  return absl::StrCat(R"({"memoryProfilePerAllocator":{)", absl::StrJoin(allocators, ","),
                      R"(},"numHosts":1,"memoryIds":["GPU_0_bfc"],"version":1})");
}

TEST(XprofMemoryTest, TotalsAndThePeakByOperation) {
  const std::string bytes = XprofFile({"\"GPU_2_bfc\":" + Allocator(), "\"cpu\":" + Allocator()});
  for (const std::string& file : {bytes, Gzip(bytes)}) {
    ImportResult result;
    const auto analysis = Import(file, &result);
    ASSERT_TRUE(analysis.ok()) << analysis.status();
    ASSERT_EQ(analysis->devices.size(), 1u);
    EXPECT_EQ(analysis->devices[0].device, 2);
    EXPECT_EQ(analysis->devices[0].peak_total.bytes, 1000u);
    EXPECT_EQ(result.events, 13u);  // 1; 5 instead of it; 1 instead of them
    EXPECT_EQ(analysis->devices[0].end.total, 700u);
    EXPECT_FALSE(result.has_lives);
    EXPECT_THAT(result.notes, Contains(HasSubstr("has 3 samples of totals")));
    EXPECT_THAT(result.notes, Contains(HasSubstr("GPU 2: outside of the profile the allocator had up to 8.79 KiB")));
    EXPECT_THAT(result.notes, Contains(HasSubstr("left out: cpu.")));
  }
}

// Before version 1 the timeline and the allocations at the peak were one list; zeros may be left out.
TEST(XprofMemoryTest, WithoutSamplesTheSnapshotsAreTheTimeline) {
  ImportResult result;
  const auto analysis = Import(
      XprofFile({absl::StrCat(R"("0":{"memoryProfileSnapshots":[)", Sample(1, 10), ",", Sample(2, 30), ",{}]}")}),
      &result);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  EXPECT_EQ(analysis->devices[0].peak_total.bytes, 30u);
  EXPECT_THAT(result.notes, Contains(HasSubstr("An allocator is a number alone")));
}

TEST(XprofMemoryTest, ListsThatAreMoreThanThePeakAreNotShown) {
  std::string allocator = Allocator();
  allocator.replace(allocator.find("\"numOccurrences\":\"2\""), 20, "\"numOccurrences\":\"9\"");
  ImportResult result;
  const auto analysis = Import(XprofFile({"\"GPU_0_bfc\":" + allocator, "\"gpu_host_bfc\":" + Allocator()}), &result);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  EXPECT_EQ(analysis->devices[0].peak_total.bytes, 1000u);
  EXPECT_EQ(result.events, 5u + 13u);  // one block for each of three totals; the host's as listed
  EXPECT_EQ(analysis->host_pinned_peak, 1000u);
  EXPECT_THAT(result.notes, Contains(HasSubstr("more than the peak, so they are not shown")));
}

TEST(XprofMemoryTest, RefusesWhatIsNone) {
  EXPECT_THAT(std::string(Import(XprofFile({"\"cpu\":" + Allocator()})).status().message()),
              HasSubstr("without memory of a device (it has cpu)"));
  EXPECT_THAT(std::string(Import(XprofFile({})).status().message()), HasSubstr("without memory of a device. Profile"));
  const std::string whole = XprofFile({"\"GPU_0_bfc\":" + Allocator()});
  for (size_t size = 40; size < whole.size(); size += 7)
    EXPECT_TRUE(absl::IsDataLoss(Import(whole.substr(0, size)).status())) << size;
  EXPECT_FALSE(Import(R"({"memoryProfilePerAllocator":[1,{"a":2}]})").ok());
  EXPECT_FALSE(
      Import(R"({"memoryProfilePerAllocator":{"GPU_0_bfc":7,"GPU_1_bfc":{"sampledTimelineSnapshots":"x"}}})").ok());
}

}  // namespace
}  // namespace gpumem
