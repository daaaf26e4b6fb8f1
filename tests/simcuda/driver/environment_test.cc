// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "simcuda/base/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace simcuda {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(VisibleDevicesTest, FollowsCudaVisibleDevices) {
  EXPECT_THAT(VisibleDevices(nullptr, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(VisibleDevices("2,0", 3), ElementsAre(2, 0));
  EXPECT_THAT(VisibleDevices("", 3), IsEmpty());
  EXPECT_THAT(VisibleDevices("-1", 3), IsEmpty());
  EXPECT_THAT(VisibleDevices("1,7,2", 3), ElementsAre(1));  // ends at the first that is none
  EXPECT_THAT(VisibleDevices("1,1", 3), ElementsAre(1));
}

TEST(EnvironmentTest, CapacityLowersTheSizeAndNeverRaisesIt) {
  ::setenv("SIMCUDA_MEM_MB", "1000", 1);
  ::setenv("SIMCUDA_CAPACITY_MB", "100", 1);
  EXPECT_EQ(ReadEnvironment().memory_bytes, uint64_t{100} << 20);
  ::setenv("SIMCUDA_CAPACITY_MB", "5000", 1);
  EXPECT_EQ(ReadEnvironment().memory_bytes, uint64_t{1000} << 20);
  ::unsetenv("SIMCUDA_CAPACITY_MB");
  ::unsetenv("SIMCUDA_MEM_MB");
}

TEST(EnvironmentTest, FailurePlanHasAnOptionalCount) {
  ::setenv("SIMCUDA_FAIL_ALLOC", "7", 1);
  EXPECT_EQ(ReadEnvironment().fail_first, 7u);
  EXPECT_EQ(ReadEnvironment().fail_count, 1u);
  ::setenv("SIMCUDA_FAIL_ALLOC", "7,3", 1);
  EXPECT_EQ(ReadEnvironment().fail_count, 3u);
  ::unsetenv("SIMCUDA_FAIL_ALLOC");
}

TEST(EnvironmentTest, DataFindAShareBetweenNothingAndAll) {
  const std::pair<const char*, double> shares[] = {{"upper", 1}, {"zero", 0}, {"0.25", 0.25}, {"1", 1},
                                                   {"0", 0},     {"", 0},     {"-1", 0},      {"1.5", 0},
                                                   {"nan", 0},   {"inf", 0},  {"expect", 0},  {"UPPER", 0}};
  for (const auto& [text, share] : shares) {
    ::setenv("SIMCUDA_DATA_DEPENDENT", text, 1);
    EXPECT_EQ(ReadEnvironment().data_dependent_share, share) << text;
  }
  ::unsetenv("SIMCUDA_DATA_DEPENDENT");
  EXPECT_EQ(ReadEnvironment().data_dependent_share, 0);
}

TEST(EnvironmentTest, OvercommitIsOffUnlessAskedFor) {
  EXPECT_FALSE(ReadEnvironment().overcommit);
  ::setenv("SIMCUDA_OVERCOMMIT", "0", 1);
  EXPECT_FALSE(ReadEnvironment().overcommit);
  ::setenv("SIMCUDA_OVERCOMMIT", "1", 1);
  EXPECT_TRUE(ReadEnvironment().overcommit);
  ::unsetenv("SIMCUDA_OVERCOMMIT");
}

TEST(EnvironmentTest, SharedMemoryIsThatOfADeviceThatThereIs) {
  EXPECT_EQ(ReadEnvironment().shared_memory, 232448);
  ::setenv("SIMCUDA_SMEM", "65536", 1);
  EXPECT_EQ(ReadEnvironment().shared_memory, 65536);
  ::setenv("SIMCUDA_SMEM", "much", 1);
  EXPECT_EQ(ReadEnvironment().shared_memory, 232448);
  ::unsetenv("SIMCUDA_SMEM");
}

// Against the rows of NVIDIA's table as they are printed: warps and KB for each capability.

struct Printed {
  int capability, warps, blocks, shared_kb, block_kb;
};

constexpr Printed kPrinted[] = {
    {70, 64, 32, 96, 96},    {75, 32, 16, 64, 64},    {80, 64, 32, 164, 163}, {86, 48, 16, 100, 99},
    {87, 48, 16, 164, 163},  {89, 48, 24, 100, 99},   {90, 64, 32, 228, 227}, {100, 64, 32, 228, 227},
    {103, 64, 32, 228, 227}, {110, 48, 24, 228, 227}, {120, 48, 24, 100, 99}, {121, 48, 24, 100, 99},
};

TEST(MultiprocessorTest, IsAsPrinted) {
  for (const Printed& printed : kPrinted) {
    SCOPED_TRACE(printed.capability);
    const Multiprocessor& found = MultiprocessorOf(printed.capability);
    EXPECT_EQ(found.capability, printed.capability);
    EXPECT_EQ(found.max_threads, printed.warps * 32);
    EXPECT_EQ(found.max_blocks, printed.blocks);
    EXPECT_EQ(found.shared_bytes, printed.shared_kb << 10);
    EXPECT_EQ(found.block_shared_bytes, printed.block_kb << 10);
    EXPECT_EQ(found.reserved_shared_bytes, (printed.shared_kb - printed.block_kb) << 10);
    EXPECT_EQ(found.registers, 64 << 10);
  }
}

TEST(MultiprocessorTest, AnUnknownOneIsAsTheOneBelow) {
  EXPECT_EQ(MultiprocessorOf(88).capability, 87);
  EXPECT_EQ(MultiprocessorOf(130).capability, 121);
  EXPECT_EQ(MultiprocessorOf(60).capability, 70);
}

TEST(MultiprocessorTest, TheCapabilityOfTheEnvironmentDecides) {
  ::setenv("SIMCUDA_CC", "86", 1);
  EXPECT_EQ(ReadEnvironment().multiprocessor.max_threads, 1536);
  EXPECT_EQ(ReadEnvironment().shared_memory, 99 << 10);
  ::setenv("SIMCUDA_SMEM", "65536", 1);
  EXPECT_EQ(ReadEnvironment().shared_memory, 65536);
  EXPECT_EQ(ReadEnvironment().multiprocessor.shared_bytes, 65536 + 1024);
  ::unsetenv("SIMCUDA_SMEM");
  ::unsetenv("SIMCUDA_CC");
}

}  // namespace
}  // namespace simcuda
