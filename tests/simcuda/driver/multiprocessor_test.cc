// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Against the rows of NVIDIA's table as they are printed: warps and KB for each capability.
#include "simcuda/base/multiprocessor.h"

#include <gtest/gtest.h>

#include "simcuda/base/environment.h"

namespace simcuda {
namespace {

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
